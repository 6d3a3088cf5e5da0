#include <tandem/core/base/check.h>
#include <tandem/distributed/groups/host/peer_links.h>
#include <tandem/distributed/groups/signs_of_life.h>
#include <tandem/distributed/system/keyed_hash.h>
#include <tandem/distributed/system/random_text.h>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace tandem::distributed {
namespace {

constexpr int secret_bytes = 32;
// The system drops a passed file if the receiving process can't open another file.
constexpr const char* no_room = ": perhaps it has reached its limit of open files (ulimit -n)";

// The message that a rank sends over a new connection, together with the file.
struct Greeting {
  char secret[secret_bytes];  // the receiver's secret, from the store; a stranger does not know it
  int rank;
};

// Returns an address in the abstract namespace, which disappears with the socket.
sockaddr_un abstract_address(const std::string& name, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

// The socket does not block, because a stranger could fill the listener's queue or stay silent on a connection.
FileDescriptor unix_socket() {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  TANDEM_CHECK(socket.is_open(), "shared memory: could not make a Unix socket: ", errno_text());
  return socket;
}

// The buffers for a greeting and a file, in the form that sendmsg() and recvmsg() expect.
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

// Returns the files that arrived with a message. The system has already opened all of them in this process, so each one
// must be closed.
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

// Reads a greeting if one has arrived. `file` stays empty unless exactly one file came with it.
Heard receive_greeting(const FileDescriptor& socket, Greeting& greeting, FileDescriptor& file) {
  Envelope envelope(greeting);
  const ssize_t got = recvmsg(socket.get(), &envelope.message, MSG_CMSG_CLOEXEC);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Heard::nothing_yet : Heard::nonsense;
  auto files = files_of(envelope.message);
  if (got != static_cast<ssize_t>(sizeof greeting)) return Heard::nonsense;
  // MSG_CTRUNC means that the system dropped files for lack of room.
  if (files.size() == 1 && (envelope.message.msg_flags & MSG_CTRUNC) == 0) file = std::move(files[0]);
  return Heard::greeting;
}

// Returns the user that runs the process at the other end.
uid_t user_of_peer(const FileDescriptor& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  TANDEM_CHECK(getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0,
               "shared memory: could not find out which user runs a peer: ", std::strerror(errno));
  return peer.uid;
}

FileDescriptor call(const sockaddr_un& address, socklen_t length, const Member& peer, Deadline deadline) {
  FileDescriptor socket = unix_socket();
  while (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    const int reason = errno;
    // The queue of the listener is full.
    const bool again = (reason == EAGAIN || reason == EINTR) && RunningTime::now() < deadline;
    TANDEM_CHECK(again, "shared memory: could not reach ", peer.name(), ": ", std::strerror(reason));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const uid_t user = user_of_peer(socket);
  TANDEM_CHECK(user == geteuid(), "shared memory: ", peer.name(), " runs as user ", user, ", this process as user ",
               geteuid(), ": start all ranks as one user, or use --backend gloo");
  return socket;
}

// The text that a rank publishes in the store.
struct Address {
  std::string name;    // of its socket
  std::string secret;  // every caller must know it
};

// Links one rank to all others. Each rank calls the ranks before it, and answers the ranks after it.
class Linking {
 public:
  Linking(Store& store, int rank, const Members& members, const FileDescriptor& file, Deadline deadline)
      : store_(store), rank_(rank), members_(members), file_(file), deadline_(deadline), links_(members.size()) {
    socklen_t length = 0;
    const sockaddr_un mine = abstract_address(own_.name, length);
    TANDEM_CHECK(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&mine), length) == 0 &&
                     listen(listener_.get(), SOMAXCONN) == 0,
                 "shared memory: could not make a Unix socket: ", errno_text());
  }

  std::vector<PeerLink> run() {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - RunningTime::now());
    addresses_ = exchange_texts(store_, "segment", rank_, static_cast<int>(links_.size()),
                                own_.name + "\n" + own_.secret, std::min(left, store_.timeout()));
    for (int r = 0; r < rank_; ++r) links_[r] = call_rank(r);
    answer_later_ranks();
    return std::move(links_);
  }

 private:
  // Sends the file descriptor of this rank's segment to rank `r`, and waits for that rank's.
  PeerLink call_rank(int r) const {
    const Address address = address_of(r);
    socklen_t length = 0;
    const sockaddr_un theirs = abstract_address(address.name, length);
    PeerLink link{call(theirs, length, members_[r], deadline_), {}};
    greet(link.socket, address.secret);
    Greeting answer{};
    Heard heard = Heard::nothing_yet;
    while (heard == Heard::nothing_yet) {
      TANDEM_CHECK(wait_readable(link.socket, deadline_), "shared memory: ", members_[r].name(), " did not send ",
                   members_[rank_].name(), " its segment in time");
      heard = receive_greeting(link.socket, answer, link.file);
    }
    TANDEM_CHECK(heard == Heard::greeting && link.file.is_open() && answer.rank == r && knows_secret(answer),
                 "shared memory: ", members_[r].name(), " did not send ", members_[rank_].name(), " its segment",
                 no_room);
    return link;
  }

  // Reads all open connections at once, so a connection that sends nothing delays no rank.
  void answer_later_ranks() {
    std::vector<FileDescriptor> callers;
    for (auto late = missing_ranks(); !late.empty(); late = missing_ranks()) {
      std::vector<pollfd> waiting{{listener_.get(), POLLIN, 0}};
      for (const auto& caller : callers) waiting.push_back({caller.get(), POLLIN, 0});
      const auto next_look = std::min(deadline_, RunningTime::now() + std::chrono::milliseconds(100));
      // Asks only while nothing arrives, and only about one rank: all ranks together ask one store. A rank that has
      // ended becomes the first missing one when the ranks before it have arrived.
      if (!poll_until(waiting.data(), waiting.size(), next_look))
        TANDEM_CHECK(!has_left(store_, late[0]), "shared memory: ", members_[late[0]].name(),
                     " ended before it reached ", members_[rank_].name());
      TANDEM_CHECK(RunningTime::now() < deadline_, "shared memory: these ranks did not reach ", members_[rank_].name(),
                   " in time: ", names_of(members_, late));
      std::vector<FileDescriptor> silent;
      for (std::size_t i = 0; i < callers.size(); ++i) {
        if (waiting[i + 1].revents == 0 || !answer(callers[i])) silent.push_back(std::move(callers[i]));
      }
      callers = std::move(silent);
      if (waiting[0].revents != 0) accept_caller(callers);
    }
  }

  // Reads from `caller`. Returns false if nothing has arrived yet. If the caller is a later rank, the function keeps
  // its file and sends it this rank's file. Otherwise it closes the connection.
  bool answer(FileDescriptor& caller) {
    PeerLink link{std::move(caller), {}};
    Greeting greeting{};
    const Heard heard = receive_greeting(link.socket, greeting, link.file);
    if (heard == Heard::nothing_yet) {
      caller = std::move(link.socket);
      return false;
    }
    const bool is_missing = heard == Heard::greeting && knows_secret(greeting) && greeting.rank > rank_ &&
                            greeting.rank < static_cast<int>(links_.size()) && !links_[greeting.rank].socket.is_open();
    if (!is_missing) return true;
    TANDEM_CHECK(link.file.is_open(), "shared memory: ", members_[rank_].name(), " received no segment from ",
                 members_[greeting.rank].name(), no_room);
    greet(link.socket, address_of(greeting.rank).secret);
    links_[greeting.rank] = std::move(link);
    return true;
  }

  void accept_caller(std::vector<FileDescriptor>& callers) const {
    FileDescriptor caller(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    TANDEM_CHECK(caller.is_open() || errno == EINTR || errno == EAGAIN || errno == ECONNABORTED,
                 "shared memory: could not accept a peer's connection: ", errno_text());
    if (caller.is_open() && user_of_peer(caller) == geteuid()) callers.push_back(std::move(caller));
  }

  // Returns the later ranks that have not called yet.
  std::vector<int> missing_ranks() const {
    std::vector<int> ranks;
    for (int r = rank_ + 1; r < static_cast<int>(links_.size()); ++r) {
      if (!links_[r].socket.is_open()) ranks.push_back(r);
    }
    return ranks;
  }

  Address address_of(int r) const {
    const std::string& text = addresses_.at(static_cast<std::size_t>(r));
    TANDEM_CHECK(text.size() == own_.name.size() + 1 + own_.secret.size() && text[own_.name.size()] == '\n',
                 "shared memory: the store's entry for ", members_[r].name(),
                 " is not an address in this version's format");
    return {text.substr(0, own_.name.size()), text.substr(own_.name.size() + 1)};
  }

  void greet(const FileDescriptor& socket, const std::string& their_secret) const {
    Greeting greeting{};
    std::memcpy(greeting.secret, their_secret.data(), secret_bytes);
    greeting.rank = rank_;
    send_greeting(socket, greeting, file_);
  }

  bool knows_secret(const Greeting& greeting) const {
    return equal_secrets({greeting.secret, secret_bytes}, own_.secret);
  }

  Store& store_;
  const int rank_;
  const Members& members_;
  const FileDescriptor& file_;
  const Deadline deadline_;
  const Address own_{"tandem-" + random_text(secret_bytes / 8), random_text(secret_bytes / 8)};
  const FileDescriptor listener_ = unix_socket();
  std::vector<std::string> addresses_;  // by rank, as texts
  std::vector<PeerLink> links_;         // by rank
};

}  // namespace

std::vector<PeerLink> link_peers(Store& store, int rank, const Members& members, const FileDescriptor& file,
                                 Deadline deadline) {
  return Linking(store, rank, members, file, deadline).run();
}

}  // namespace tandem::distributed
