// A client of a store's server that sends exactly the bytes that a test gives it.
#pragma once

#include <tandem/distributed/system/socket.h>

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace tandem::testing {

inline std::string u64(std::uint64_t value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }
inline std::string text(const std::string& value) {
  std::string bytes = u64(value.size());
  bytes.append(value);
  return bytes;
}
inline const std::string hello("\x00\xCE\xF7\x85\x3C", 5);

class RawClient {
 public:
  explicit RawClient(int port) : socket_(distributed::connect_to("127.0.0.1", port, in(10000))) {}

  void send(const std::string& bytes) { distributed::send_all(socket_, bytes, in(10000)); }
  std::string receive(std::size_t size) {
    std::string bytes(size, '\0');
    distributed::receive_all(socket_, bytes.data(), size, in(10000));
    return bytes;
  }
  bool is_silent() { return !distributed::wait_readable(socket_, in(50)); }
  // Returns whether the server closes the connection within this time.
  bool is_closed(int milliseconds = 10000) {
    char byte;
    return distributed::wait_readable(socket_, in(milliseconds)) && recv(socket_.get(), &byte, 1, 0) <= 0;
  }

 private:
  static Deadline in(int milliseconds) { return RunningTime::now() + std::chrono::milliseconds(milliseconds); }

  distributed::FileDescriptor socket_;
};

}  // namespace tandem::testing
