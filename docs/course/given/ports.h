// TCP connections on this host.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace course {

inline sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A socket that others can connect to, and the number of its port, which the system chooses.
inline std::pair<int, int> listen_on_a_free_port() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof(address);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener, 64) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("no port to listen on");
  return {listener, ntohs(address.sin_port)};
}

// Connects to the process that listens on `port`. Does not wait until the other side calls accept_one.
inline int connect_to(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = loopback(port);
  if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    throw std::runtime_error("no process listens on port " + std::to_string(port));
  return socket;
}

// Waits for the next connection.
inline int accept_one(int listener) { return accept(listener, nullptr, nullptr); }

}  // namespace course
