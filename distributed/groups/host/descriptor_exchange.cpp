#include <tandem/core/base/check.h>
#include <tandem/distributed/groups/host/descriptor_exchange.h>
#include <tandem/distributed/system/random_text.h>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

FileDescriptor unix_socket() {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
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

// The greeting with the file; an empty descriptor when it is not one.
FileDescriptor receive_greeting(const FileDescriptor& socket, Greeting& greeting, Deadline deadline) {
  if (!wait_readable(socket, deadline)) return {};
  Envelope envelope(greeting);
  const ssize_t got = recvmsg(socket.get(), &envelope.message, MSG_CMSG_CLOEXEC);
  const cmsghdr* header = CMSG_FIRSTHDR(&envelope.message);
  if (got <= 0 || header == nullptr || header->cmsg_type != SCM_RIGHTS) return {};
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  FileDescriptor file(fd);
  if (got != static_cast<ssize_t>(sizeof greeting)) return {};
  return file;
}

std::string key(int rank) { return "segment/" + std::to_string(rank); }

}  // namespace

std::vector<PeerLink> exchange_descriptors(Store& store, int rank, int size, const FileDescriptor& file,
                                           Deadline deadline) {
  const std::string name = "tandem-" + random_text(secret_bytes / 8), secret = random_text(secret_bytes / 8);
  const FileDescriptor listener = unix_socket();
  socklen_t length = 0;
  const sockaddr_un mine = abstract_address(name, length);
  TANDEM_CHECK(bind(listener.get(), reinterpret_cast<const sockaddr*>(&mine), length) == 0 &&
                   listen(listener.get(), size + 8) == 0,
               "shared memory: no Unix socket: ", errno_text());
  store.set(key(rank), name + "\n" + secret);

  const auto greet = [&](const FileDescriptor& socket, const std::string& their_secret) {
    Greeting greeting{};
    std::memcpy(greeting.secret, their_secret.data(), secret_bytes);
    greeting.rank = rank;
    send_greeting(socket, greeting, file);
  };
  const auto secret_of = [&](int r, std::string* their_name) {
    const std::string text = store.get(key(r));
    TANDEM_CHECK(text.size() == name.size() + 1 + secret.size() && text[name.size()] == '\n',
                 "shared memory: what the store holds for rank ", r, " is no address of this version's");
    if (their_name != nullptr) *their_name = text.substr(0, name.size());
    return text.substr(name.size() + 1);
  };

  // Each rank calls those before it and is called by those after it.
  std::vector<PeerLink> links(size);
  for (int r = 0; r < rank; ++r) {
    std::string their_name;
    const std::string their_secret = secret_of(r, &their_name);
    PeerLink link{unix_socket(), {}};
    const sockaddr_un theirs = abstract_address(their_name, length);
    TANDEM_CHECK(connect(link.socket.get(), reinterpret_cast<const sockaddr*>(&theirs), length) == 0,
                 "shared memory: rank ", rank, " could not reach rank ", r, ": ", std::strerror(errno));
    greet(link.socket, their_secret);
    Greeting answer{};
    link.file = receive_greeting(link.socket, answer, deadline);
    TANDEM_CHECK(
        link.file.is_open() && answer.rank == r && std::memcmp(answer.secret, secret.data(), secret_bytes) == 0,
        "shared memory: rank ", r, " did not give rank ", rank, " its segment", no_room);
    links[r] = std::move(link);
  }
  for (int missing = size - 1 - rank; missing > 0;) {
    TANDEM_CHECK(wait_readable(listener, deadline), "shared memory: ", missing, " of ", size,
                 " ranks did not come to rank ", rank, " in time");
    PeerLink link{FileDescriptor(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)), {}};
    TANDEM_CHECK(link.socket.is_open() || errno == EINTR || errno == ECONNABORTED,
                 "shared memory: could not hear a peer: ", errno_text());
    if (!link.socket.is_open()) continue;
    Greeting greeting{};
    link.file = receive_greeting(link.socket, greeting, deadline);
    const bool known = greeting.rank > rank && greeting.rank < size &&
                       std::memcmp(greeting.secret, secret.data(), secret_bytes) == 0 &&
                       !links[greeting.rank].socket.is_open();
    if (!known) continue;
    TANDEM_CHECK(link.file.is_open(), "shared memory: rank ", rank, " got no segment of rank ", greeting.rank, no_room);
    greet(link.socket, secret_of(greeting.rank, nullptr));
    links[greeting.rank] = std::move(link);
    --missing;
  }
  return links;
}

}  // namespace tandem::distributed
