#include <tandem/core/base/check.h>
#include <tandem/distributed/groups/host/descriptor_exchange.h>
#include <tandem/distributed/system/keyed_hash.h>
#include <tandem/distributed/system/random_text.h>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace tandem::distributed {
namespace {

constexpr int secret_bytes = 32;
// The system drops a file that is passed to a process that can't open one more.
constexpr const char* no_room = ": perhaps it may open no more files (ulimit -n)";

// What a rank sends over a new connection; the file travels beside it.
struct Greeting {
  char secret[secret_bytes];  // the receiver's, from the store: a stranger does not know it
  int rank;
};

// In the abstract namespace: it is gone with the socket.
sockaddr_un abstract_address(const std::string& name, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

// It does not block: a stranger can fill the queue of a listener, and stay silent on a connection.
FileDescriptor unix_socket() {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  TANDEM_CHECK(socket.is_open(), "shared memory: no Unix socket: ", errno_text());
  return socket;
}

// Room for a greeting and a file, as the system wants it.
struct Envelope {
  explicit Envelope(Greeting& greeting) : data{&greeting, sizeof greeting} {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  Envelope(const Envelope&) = delete;
  Envelope& operator=(const Envelope&) = delete;

  iovec data;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
};

void send_greeting(const FileDescriptor& socket, Greeting greeting, const FileDescriptor& file) {
  Envelope envelope(greeting);
  cmsghdr* header = CMSG_FIRSTHDR(&envelope.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = file.get();
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  TANDEM_CHECK(sendmsg(socket.get(), &envelope.message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof greeting),
               "shared memory: could not pass a segment to a peer: ", std::strerror(errno));
}

// The files that came with a message. All are open in this process, whether it wants them or not.
std::vector<FileDescriptor> files_of(msghdr& message) {
  std::vector<FileDescriptor> files;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; at + sizeof(int) <= header->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
      files.emplace_back(fd);
    }
  }
  return files;
}

enum class Heard { nothing_yet, greeting, nonsense };

// Reads what has arrived. `file` stays empty unless exactly one file came with the greeting.
Heard receive_greeting(const FileDescriptor& socket, Greeting& greeting, FileDescriptor& file) {
  Envelope envelope(greeting);
  const ssize_t got = recvmsg(socket.get(), &envelope.message, MSG_CMSG_CLOEXEC);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Heard::nothing_yet : Heard::nonsense;
  auto files = files_of(envelope.message);
  if (got != static_cast<ssize_t>(sizeof greeting)) return Heard::nonsense;
  // The system drops the files that it has no room for, and says so.
  if (files.size() == 1 && (envelope.message.msg_flags & MSG_CTRUNC) == 0) file = std::move(files[0]);
  return Heard::greeting;
}

// The user who runs the process at the other end.
uid_t user_of_peer(const FileDescriptor& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  TANDEM_CHECK(getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0,
               "shared memory: could not find out who a peer is: ", std::strerror(errno));
  return peer.uid;
}

FileDescriptor call(const sockaddr_un& address, socklen_t length, const Member& peer, Deadline deadline) {
  FileDescriptor socket = unix_socket();
  while (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    const int reason = errno;
    // The queue of the listener is full.
    const bool again = (reason == EAGAIN || reason == EINTR) && std::chrono::steady_clock::now() < deadline;
    TANDEM_CHECK(again, "shared memory: could not reach ", peer.name(), ": ", std::strerror(reason));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const uid_t user = user_of_peer(socket);
  TANDEM_CHECK(user == geteuid(), "shared memory: ", peer.name(), " runs as user ", user, ", this process as user ",
               geteuid(), ": start all ranks as one user, or use --backend gloo");
  return socket;
}

// What a rank tells the others through the store.
struct Address {
  std::string name;    // of its socket
  std::string secret;  // that those who call must know
};

std::string key(int rank) { return "segment/" + std::to_string(rank); }

}  // namespace

std::vector<PeerLink> exchange_descriptors(Store& store, int rank, const Members& members, const FileDescriptor& file,
                                           Deadline deadline) {
  const int size = static_cast<int>(members.size());
  const Address own{"tandem-" + random_text(secret_bytes / 8), random_text(secret_bytes / 8)};
  const FileDescriptor listener = unix_socket();
  socklen_t length = 0;
  const sockaddr_un mine = abstract_address(own.name, length);
  TANDEM_CHECK(bind(listener.get(), reinterpret_cast<const sockaddr*>(&mine), length) == 0 &&
                   listen(listener.get(), SOMAXCONN) == 0,
               "shared memory: no Unix socket: ", errno_text());
  store.set(key(rank), own.name + "\n" + own.secret);

  const auto address_of = [&](int r) {
    std::string text;
    try {
      text = store.get(key(r));
    } catch (const Error& error) {
      detail::fail("shared memory: ", members[r].name(), " did not say where its socket is: ", error.what());
    }
    TANDEM_CHECK(text.size() == own.name.size() + 1 + own.secret.size() && text[own.name.size()] == '\n',
                 "shared memory: what the store holds for ", members[r].name(), " is no address of this version's");
    return Address{text.substr(0, own.name.size()), text.substr(own.name.size() + 1)};
  };
  const auto greet = [&](const FileDescriptor& socket, const std::string& their_secret) {
    Greeting greeting{};
    std::memcpy(greeting.secret, their_secret.data(), secret_bytes);
    greeting.rank = rank;
    send_greeting(socket, greeting, file);
  };
  const auto knows_secret = [&](const Greeting& greeting) {
    return equal_secrets({greeting.secret, secret_bytes}, own.secret);
  };

  // Each rank calls those before it and is called by those after it.
  std::vector<PeerLink> links(size);
  for (int r = 0; r < rank; ++r) {
    const Address address = address_of(r);
    const sockaddr_un theirs = abstract_address(address.name, length);
    PeerLink link{call(theirs, length, members[r], deadline), {}};
    greet(link.socket, address.secret);
    Greeting answer{};
    Heard heard = Heard::nothing_yet;
    while (heard == Heard::nothing_yet) {
      TANDEM_CHECK(wait_readable(link.socket, deadline), "shared memory: ", members[r].name(), " did not give ",
                   members[rank].name(), " its segment in time");
      heard = receive_greeting(link.socket, answer, link.file);
    }
    TANDEM_CHECK(heard == Heard::greeting && link.file.is_open() && answer.rank == r && knows_secret(answer),
                 "shared memory: ", members[r].name(), " did not give ", members[rank].name(), " its segment", no_room);
    links[r] = std::move(link);
  }

  // Whoever has connected is listened to side by side, so that nobody waits for one who says nothing.
  std::vector<FileDescriptor> callers;
  for (int missing = size - 1 - rank; missing > 0;) {
    std::vector<pollfd> waiting{{listener.get(), POLLIN, 0}};
    for (const auto& caller : callers) waiting.push_back({caller.get(), POLLIN, 0});
    const int ready = poll(waiting.data(), waiting.size(), poll_timeout(deadline));
    TANDEM_CHECK(ready >= 0 || errno == EINTR, "shared memory: could not wait for peers: ", std::strerror(errno));
    if (ready < 0) continue;
    std::vector<int> late;
    for (int r = rank + 1; r < size; ++r) {
      if (!links[r].socket.is_open()) late.push_back(r);
    }
    const bool in_time = ready > 0 && std::chrono::steady_clock::now() < deadline;
    TANDEM_CHECK(in_time, "shared memory: did not come to ", members[rank].name(),
                 " in time: ", names_of(members, late));

    std::vector<FileDescriptor> silent;
    for (std::size_t i = 0; i < callers.size(); ++i) {
      PeerLink link{std::move(callers[i]), {}};
      Greeting greeting{};
      const Heard heard =
          waiting[i + 1].revents == 0 ? Heard::nothing_yet : receive_greeting(link.socket, greeting, link.file);
      if (heard == Heard::nothing_yet) silent.push_back(std::move(link.socket));
      if (heard != Heard::greeting || !knows_secret(greeting) || greeting.rank <= rank || greeting.rank >= size ||
          links[greeting.rank].socket.is_open())
        continue;
      TANDEM_CHECK(link.file.is_open(), "shared memory: ", members[rank].name(), " got no segment of ",
                   members[greeting.rank].name(), no_room);
      greet(link.socket, address_of(greeting.rank).secret);
      links[greeting.rank] = std::move(link);
      --missing;
    }
    callers = std::move(silent);

    if (waiting[0].revents == 0) continue;
    FileDescriptor caller(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    TANDEM_CHECK(caller.is_open() || errno == EINTR || errno == EAGAIN || errno == ECONNABORTED,
                 "shared memory: could not hear a peer: ", errno_text());
    if (caller.is_open() && user_of_peer(caller) == geteuid()) callers.push_back(std::move(caller));
  }
  return links;
}

}  // namespace tandem::distributed
