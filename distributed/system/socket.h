// TCP sockets with deadlines: what the store's client and server are built on. The host name "localhost" is
// 127.0.0.1, without asking the resolver (RFC 6761).
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

namespace tandem::distributed {

using Deadline = std::chrono::steady_clock::time_point;

// Owns an open file, socket or pipe end.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { close(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

// What errno says, and what to do when no more files can be opened.
std::string errno_text();

// "10.0.0.1:29500", "[::1]:29500"
std::string endpoint_name(const std::string& host, int port);

// Listens at the address `host` stands for, on all interfaces (IPv6 and IPv4) when `host` is empty; port 0
// takes a free one. The socket does not block. Error when the address is not of this machine or the port is
// taken.
FileDescriptor listen_on(const std::string& host, int port);
int local_port(const FileDescriptor& socket);
std::string local_address(const FileDescriptor& socket);  // in digits

// Connects. While nobody answers, it tries again with growing pauses until the deadline, and then throws an Error that
// says why.
FileDescriptor connect_to(const std::string& host, int port, Deadline deadline);

// Milliseconds until the deadline as poll(2) wants them: rounded up, never negative.
int poll_timeout(Deadline deadline);
// Waits until there is something to read (an end of file counts). False when the deadline comes first.
bool wait_readable(const FileDescriptor& socket, Deadline deadline);
// Both throw an Error when the deadline comes first, and when the peer has closed the connection.
void send_all(const FileDescriptor& socket, const std::string& bytes, Deadline deadline);
void receive_all(const FileDescriptor& socket, void* data, std::size_t size, Deadline deadline);

}  // namespace tandem::distributed
