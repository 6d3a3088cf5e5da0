// TCP sockets with deadlines, on which the store's client and server are built. The host name "localhost" is 127.0.0.1,
// without asking the resolver (RFC 6761).
#pragma once

#include <tandem/core/base/check.h>
#include <tandem/core/base/deadline.h>

#include <poll.h>

#include <cstddef>
#include <string>
#include <utility>

namespace tandem::distributed {

// Owns an open file, a socket or one end of a pipe, and closes it.
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

// Returns the text of errno. If the process has too many open files, the text also says how to raise that limit.
std::string errno_text();

// Returns "10.0.0.1:29500", or "[::1]:29500" for IPv6.
std::string endpoint_name(const std::string& host, int port);

// Listens at the address of `host`, or on all interfaces (IPv6 and IPv4) if `host` is empty. Port 0 chooses any free
// port. The socket does not block. Throws an Error if the address does not belong to this machine or the port is in
// use.
FileDescriptor listen_on(const std::string& host, int port);
int local_port(const FileDescriptor& socket);
std::string local_address(const FileDescriptor& socket);  // numeric

// Thrown if no process answers at an address in time.
struct CannotConnect : Error {
  using Error::Error;
};

// Connects to a listener. While no process answers, the function tries again, with pauses that grow from 10 ms to 1 s.
// At the deadline, it throws CannotConnect, which names the endpoint, the time spent, the reason why the last attempt
// failed, and its meaning. A caller that knows which program should listen there adds advice for the user.
FileDescriptor connect_to(const std::string& host, int port, Deadline deadline);

// Waits with poll(2) until one of `count` files is ready. Returns false if the deadline passes first.
bool poll_until(pollfd* files, std::size_t count, Deadline deadline);
// Waits until there is data to read or the stream has ended. Returns false if the deadline passes first.
bool wait_readable(const FileDescriptor& socket, Deadline deadline);
// Both functions throw an Error if the deadline passes first or the peer has closed the connection.
void send_all(const FileDescriptor& socket, const std::string& bytes, Deadline deadline);
void receive_all(const FileDescriptor& socket, void* data, std::size_t size, Deadline deadline);

}  // namespace tandem::distributed
