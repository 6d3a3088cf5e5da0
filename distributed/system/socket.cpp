#include <tandem/core/base/check.h>
#include <tandem/distributed/system/resolver.h>
#include <tandem/distributed/system/socket.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <thread>

namespace tandem::distributed {
namespace {

using std::chrono::milliseconds;

FileDescriptor open_socket(int family) {
  return FileDescriptor(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

void set_flag(const FileDescriptor& socket, int level, int name, int value) {
  setsockopt(socket.get(), level, name, &value, sizeof value);
}

// Returns a listening socket. On failure, the socket is closed and errno holds the reason.
FileDescriptor try_listen(const sockaddr* address, socklen_t size) {
  auto socket = open_socket(address->sa_family);
  if (!socket.is_open()) return socket;
  // Without this option, a port stays in use while its last connections are in TIME_WAIT.
  set_flag(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address->sa_family == AF_INET6) set_flag(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(socket.get(), address, size) != 0 || ::listen(socket.get(), SOMAXCONN) != 0) {
    const int reason = errno;
    socket.close();
    errno = reason;
  }
  return socket;
}

// Returns a text that explains to the user why connecting failed with this errno.
const char* meaning_of(int failure) {
  switch (failure) {
    case ECONNREFUSED: return ": the host answers, but no program listens at that port";
    case ETIMEDOUT: return ": nothing answers there; the address may be wrong, or a firewall may block this host";
    case EHOSTUNREACH:
    case ENETUNREACH: return ": there is no route from this host to that address";
    default: return "";
  }
}

// Returns a connected socket. On failure, the socket is closed and `reason` is set.
FileDescriptor try_connect(const addrinfo& address, Deadline deadline, std::string& reason) {
  auto socket = open_socket(address.ai_family);
  if (!socket.is_open()) {
    reason = errno_text();
    // A retry can't help if this process has too many open files.
    TANDEM_CHECK(errno != EMFILE, "cannot create a socket: ", reason);
    return socket;
  }
  int failure = 0;
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    failure = errno;
    if (failure == EINPROGRESS) {
      pollfd waiting{socket.get(), POLLOUT, 0};
      socklen_t size = sizeof failure;
      if (!poll_until(&waiting, 1, deadline)) failure = ETIMEDOUT;
      else getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
    }
  }
  // The kernel may choose the destination port as the local port. The socket is then connected to itself, although no
  // process listens.
  sockaddr_storage mine{}, theirs{};
  socklen_t mine_size = sizeof mine, their_size = sizeof theirs;
  if (failure == 0 && getsockname(socket.get(), reinterpret_cast<sockaddr*>(&mine), &mine_size) == 0 &&
      getpeername(socket.get(), reinterpret_cast<sockaddr*>(&theirs), &their_size) == 0 && mine_size == their_size &&
      std::memcmp(&mine, &theirs, mine_size) == 0) {
    failure = ECONNREFUSED;
  }
  if (failure) {
    reason = std::string(std::strerror(failure)) + meaning_of(failure);
    socket.close();
    return socket;
  }
  set_flag(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_flag(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  return socket;
}

constexpr const char* busy_port =
    " (another program uses it, or another process that has RANK=0 too: choose another port)";

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void FileDescriptor::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

std::string errno_text() {
  const std::string text = std::strerror(errno);
  return errno == EMFILE ? text + " in this process: raise the limit (ulimit -n)" : text;
}

std::string endpoint_name(const std::string& host, int port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

FileDescriptor listen_on(const std::string& host, int port) {
  if (host.empty()) {
    sockaddr_in6 any6{};
    any6.sin6_family = AF_INET6;
    any6.sin6_port = htons(static_cast<std::uint16_t>(port));
    any6.sin6_addr = in6addr_any;
    auto socket = try_listen(reinterpret_cast<sockaddr*>(&any6), sizeof any6);
    if (!socket.is_open() && errno != EADDRINUSE) {  // this machine does not support IPv6
      sockaddr_in any4{};
      any4.sin_family = AF_INET;
      any4.sin_port = htons(static_cast<std::uint16_t>(port));
      socket = try_listen(reinterpret_cast<sockaddr*>(&any4), sizeof any4);
    }
    TANDEM_CHECK(socket.is_open(), "cannot listen on port ", port, " of all interfaces: ", errno_text(),
                 errno == EADDRINUSE ? busy_port : "");
    return socket;
  }
  std::string reason;
  // Within 30 s, the resolver can ask three name servers in vain (resolv.conf(5)).
  const auto addresses = resolve(host, port, RunningTime::now() + std::chrono::seconds(30), reason);
  for (const addrinfo* a = addresses.get(); a; a = a->ai_next) {
    auto socket = try_listen(a->ai_addr, a->ai_addrlen);
    if (socket.is_open()) return socket;
    reason = errno_text();
    if (errno == EADDRINUSE) reason += busy_port;
    if (errno == EADDRNOTAVAIL) reason += " (it is not an address of this machine)";
  }
  detail::fail("cannot listen on ", endpoint_name(host, port), ": ", reason);
}

int local_port(const FileDescriptor& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  TANDEM_CHECK(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0,
               "cannot determine the port of a socket: ", std::strerror(errno));
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

std::string local_address(const FileDescriptor& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char text[NI_MAXHOST] = "";
  TANDEM_CHECK(
      getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
          getnameinfo(reinterpret_cast<sockaddr*>(&address), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0,
      "cannot determine the address of a socket: ", std::strerror(errno));
  return text;
}

FileDescriptor connect_to(const std::string& host, int port, Deadline deadline) {
  const auto start = RunningTime::now();
  // Ranks that start together should not all retry at the same moment. Each pause is therefore random, between half of
  // its length and its full length. The first pause, 10 ms, is short compared with the start of a process. The longest
  // pause, 1 s, causes little delay if the server starts late.
  std::minstd_rand random(static_cast<unsigned>(getpid()));
  auto pause = milliseconds(10);
  std::string reason = "no address";
  for (;;) {
    const auto addresses = resolve(host, port, deadline, reason);
    for (const addrinfo* a = addresses.get(); a; a = a->ai_next) {
      // An address that never answers must not use up the time for the other addresses. Within 10 s, TCP repeats a lost
      // connection request at least three times (after 1, 3 and 7 s; RFC 6298).
      auto socket = try_connect(*a, std::min(deadline, RunningTime::now() + std::chrono::seconds(10)), reason);
      if (socket.is_open()) return socket;
    }
    const auto now = RunningTime::now();
    if (now >= deadline) {
      throw CannotConnect(fmt::format("cannot connect to {} (tried for {:.1f} s): {}", endpoint_name(host, port),
                                      std::chrono::duration<double>(now - start).count(), reason));
    }
    const auto drawn = pause / 2 + milliseconds(random() % (pause.count() / 2 + 1));
    std::this_thread::sleep_for(std::min<RunningTime::duration>(deadline - now, drawn));
    pause = std::min(pause * 2, milliseconds(1000));
  }
}

bool poll_until(pollfd* files, std::size_t count, Deadline deadline) {
  for (;;) {
    const auto slice = next_slice(deadline);
    const int ready = ::poll(files, count, static_cast<int>(std::chrono::ceil<milliseconds>(slice).count()));
    if (ready > 0) return true;
    if (RunningTime::now() >= deadline) return false;
    if (ready < 0 && errno != EINTR) std::this_thread::sleep_for(slice);  // out of memory
  }
}

bool wait_readable(const FileDescriptor& socket, Deadline deadline) {
  pollfd waiting{socket.get(), POLLIN, 0};
  return poll_until(&waiting, 1, deadline);
}

void send_all(const FileDescriptor& socket, const std::string& bytes, Deadline deadline) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const auto n = ::send(socket.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      pollfd waiting{socket.get(), POLLOUT, 0};
      TANDEM_CHECK(poll_until(&waiting, 1, deadline), "no answer in time");
    } else {
      TANDEM_CHECK(errno == EINTR, "connection lost: ", std::strerror(errno));
    }
  }
}

void receive_all(const FileDescriptor& socket, void* data, std::size_t size, Deadline deadline) {
  auto* next = static_cast<char*>(data);
  while (size > 0) {
    const auto n = ::recv(socket.get(), next, size, 0);
    if (n > 0) {
      next += n;
      size -= static_cast<std::size_t>(n);
    } else if (n == 0) {
      detail::fail("connection closed by the other side");
    } else if (errno == EAGAIN) {
      TANDEM_CHECK(wait_readable(socket, deadline), "no answer in time");
    } else {
      TANDEM_CHECK(errno == EINTR, "connection lost: ", std::strerror(errno));
    }
  }
}

}  // namespace tandem::distributed
