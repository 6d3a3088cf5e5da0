// A web server on loopback for one test. A handler writes the response to each request.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tandem::testing {

// A TCP port of 127.0.0.1 on which no program listens while this object exists.
class ClosedPort {
 public:
  ClosedPort();
  ~ClosedPort();
  ClosedPort(const ClosedPort&) = delete;
  ClosedPort& operator=(const ClosedPort&) = delete;
  std::string url() const;

 protected:
  int socket_;
  int port_ = 0;
};

class HttpServer : public ClosedPort {
 public:
  // Gets a request's headers as text, and returns all bytes to send. The connection is then closed.
  using Handler = std::function<std::string(const std::string& request)>;

  // The server pauses for `pause` after every 1,000 bytes.
  explicit HttpServer(Handler handler, std::chrono::milliseconds pause = {});
  ~HttpServer();

  std::vector<std::string> requests() const;

  static std::string answer(const std::string& status, const std::string& body, const std::string& headers = "");
  // The first byte that a request asks for, or 0 if it asks for the whole content.
  static std::size_t range_begin(const std::string& request);
  // The response of a server that supports range requests.
  static std::string serve_ranges(const std::string& request, const std::string& content);

 private:
  Handler handler_;
  std::chrono::milliseconds pause_;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::atomic<bool> is_stopped_{false};
  std::thread thread_;

  void serve();
};

}  // namespace tandem::testing
