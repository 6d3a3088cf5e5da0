#include <support/http_server.h>

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace tandem::testing {

ClosedPort::ClosedPort() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw std::runtime_error("cannot bind a port of 127.0.0.1");
  }
  port_ = ntohs(address.sin_port);
}

ClosedPort::~ClosedPort() { ::close(socket_); }

std::string ClosedPort::url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/"; }

HttpServer::HttpServer(Handler handler, std::chrono::milliseconds pause) : handler_(std::move(handler)), pause_(pause) {
  // Requests to this server must not go through the machine's proxy.
  ::setenv("no_proxy", "127.0.0.1", 1);
  if (::listen(socket_, 16) != 0) throw std::runtime_error("cannot listen on 127.0.0.1");
  thread_ = std::thread([this] { serve(); });
}

HttpServer::~HttpServer() {
  is_stopped_ = true;
  thread_.join();
}

std::vector<std::string> HttpServer::requests() const {
  std::lock_guard lock(mutex_);
  return requests_;
}

std::string HttpServer::answer(const std::string& status, const std::string& body, const std::string& headers) {
  return "HTTP/1.1 " + status + "\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         headers + "\r\n" + body;
}

std::size_t HttpServer::range_begin(const std::string& request) {
  const auto at = request.find("Range: bytes=");
  return at == std::string::npos ? 0 : std::stoul(request.substr(at + 13));
}

std::string HttpServer::serve_ranges(const std::string& request, const std::string& content) {
  const auto begin = range_begin(request);
  if (begin == 0) return answer("200 OK", content);
  if (begin >= content.size()) return answer("416 Range Not Satisfiable", "");
  return answer("206 Partial Content", content.substr(begin),
                "Content-Range: bytes " + std::to_string(begin) + "-" + std::to_string(content.size() - 1) + "/" +
                    std::to_string(content.size()) + "\r\n");
}

void HttpServer::serve() {
  while (!is_stopped_) {
    pollfd ready{socket_, POLLIN, 0};
    if (::poll(&ready, 1, 20) <= 0) continue;
    const int connection = ::accept(socket_, nullptr, nullptr);
    if (connection < 0) continue;
    const timeval timeout{5, 0};
    ::setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    std::string request;
    char buffer[4096];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const auto count = ::recv(connection, buffer, sizeof buffer, 0);
      if (count <= 0) break;
      request.append(buffer, static_cast<std::size_t>(count));
    }
    {
      std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    const std::string bytes = handler_(request);
    for (std::size_t sent = 0; sent < bytes.size();) {
      const auto size = bytes.size() - sent;
      const auto count = ::send(connection, bytes.data() + sent,
                                pause_.count() > 0 ? std::min<std::size_t>(size, 1000) : size, MSG_NOSIGNAL);
      if (count <= 0 || is_stopped_) break;
      sent += static_cast<std::size_t>(count);
      std::this_thread::sleep_for(pause_);
    }
    ::close(connection);
  }
}

}  // namespace tandem::testing
