#include <tandem/core/base/check.h>
#include <tandem/core/base/thread.h>
#include <tandem/distributed/store/service.h>
#include <tandem/distributed/store/session.h>
#include <tandem/distributed/store/tcp_store.h>
#include <tandem/distributed/system/socket.h>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <thread>

namespace tandem::distributed {
namespace {

// A stranger is a client that has not greeted yet. Ranks that start together are strangers for a few milliseconds. It
// is unlikely that more than 512 ranks connect within that time. A dropped rank tries again.
constexpr std::size_t max_strangers = 512;
// The memory limit for the unfinished queries and unread replies of all clients together. It has room for about twenty
// queries of the maximum size (session.cpp).
constexpr std::size_t max_memory = std::size_t{512} << 20;

// Clients may use three quarters of this process's file descriptors. The process needs the rest itself, at least 40 for
// a launcher of a few ranks.
std::size_t most_clients() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  return std::clamp<std::size_t>(files.rlim_cur - std::min(files.rlim_cur, std::max<rlim_t>(files.rlim_cur / 4, 40)),
                                 16, std::size_t{1} << 16);
}

}  // namespace

// Only the thread that runs run() uses the members, unless their comment says otherwise.
class TcpStoreServer::Loop {
 public:
  explicit Loop(const Options& options)
      : token_(options.token),
        greeting_time_(options.greeting_time),
        idle_time_(options.idle_time),
        listener_(listen_on(options.host, options.port)),
        port_(local_port(listener_)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    TANDEM_CHECK(wake_.is_open(), "store: cannot create an event: ", errno_text());
    TANDEM_CHECK(token_.size() <= StoreSession::max_token_bytes, "store: the token has ", token_.size(),
                 " bytes, but at most ", StoreSession::max_token_bytes, " are allowed");
    thread_ = start_thread("the thread of the store's server", [this] { run(); });
  }

  ~Loop() {
    const std::uint64_t one = 1;
    while (::write(wake_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
    thread_.join();
  }

  int port() const { return port_; }
  int refused_clients() const { return refused_clients_; }
  int clients() const { return greeted_; }

 private:
  using ClientId = StoreService::ClientId;

  void run();
  void accept_clients();
  void serve(ClientId id);
  void drop(ClientId id, const char* reason = "the server needs its connection for another client");
  // Drops the oldest stranger, because ranks greet quickly. Returns false if there is no stranger.
  bool drop_a_stranger();
  // Drops the client that has been silent longest, if there is no token and the silence is at least idle_time_. Returns
  // false if it dropped no client.
  bool drop_an_idle_client();
  bool make_room() { return drop_a_stranger() || drop_an_idle_client(); }
  void drop_the_largest();

  // Any thread may use these. They are atomic, or do not change after the thread has started.
  const std::string token_;
  const std::chrono::milliseconds greeting_time_, idle_time_;
  FileDescriptor listener_;
  const int port_;
  FileDescriptor wake_;
  std::atomic<int> refused_clients_{0};
  std::atomic<int> greeted_{0};  // number of clients that have greeted, at the end of the last turn

  const std::size_t max_clients_ = most_clients();
  // The buffer for the bytes that one client may send in one turn. Most queries fit, so they need only one turn.
  std::vector<char> chunk_ = std::vector<char>(std::size_t{256} << 10);
  std::size_t memory_ = 0;  // of all sessions
  std::map<ClientId, StoreSession> clients_;
  std::set<ClientId> strangers_;  // clients that have not greeted, the oldest first
  ClientId next_id_ = 0;
  Deadline accept_again_{};  // no client is accepted before this time, because no file descriptor was left
  StoreService service_{[this](ClientId id, const protocol::Message& message) { clients_.at(id).reply(message); }};
  std::thread thread_;
};

void TcpStoreServer::Loop::run() {
  std::vector<pollfd> watched;
  std::vector<ClientId> ids;
  for (;;) {
    const auto now = RunningTime::now();
    auto next = Deadline::max();
    watched.assign({{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}});
    if (accept_again_ > now) {
      watched[1].events = 0;
      next = accept_again_;
    }
    ids.clear();
    for (const auto& [id, client] : clients_) {
      watched.push_back({client.fd(), static_cast<short>(client.is_behind() ? POLLOUT : POLLIN), 0});
      ids.push_back(id);
    }
    if (!strangers_.empty()) next = std::min(next, clients_.at(*strangers_.begin()).greeting_deadline());
    poll_until(watched.data(), watched.size(), next);
    if (watched[0].revents) return;
    if (watched[1].revents) accept_clients();
    while (!strangers_.empty() && clients_.at(*strangers_.begin()).greeting_deadline() <= RunningTime::now()) {
      drop(*strangers_.begin());
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (watched[i + 2].revents) serve(ids[i]);
    }
    greeted_ = static_cast<int>(clients_.size() - strangers_.size());
  }
}

void TcpStoreServer::Loop::accept_clients() {
  // A flood of new clients must not delay the other clients, so one turn accepts only some of the new ones. The
  // listener keeps the rest for the next turn. 64 at a time are enough for the start of a large job, and a small part
  // of the limit of strangers.
  for (int i = 0; i < 64; ++i) {
    FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return;
      // No file descriptor or memory is left. If the server can't make room, it tries again after a pause. Without the
      // pause, poll() would return at once, again and again, because the listener stays readable.
      if (!make_room()) {
        accept_again_ = RunningTime::now() + std::chrono::milliseconds(100);
        return;
      }
      continue;
    }
    if (strangers_.size() >= max_strangers) drop_a_stranger();
    if (clients_.size() >= max_clients_ && !make_room()) continue;  // `socket` closes the connection
    const auto id = next_id_++;
    clients_.try_emplace(id, std::move(socket), token_, memory_, RunningTime::now() + greeting_time_);
    strangers_.insert(id);
  }
}

void TcpStoreServer::Loop::serve(ClientId id) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;  // this turn has already dropped the client
  auto& client = found->second;
  try {
    client.serve(chunk_, [&](protocol::Reader& reader) { service_.answer(id, reader); });
    if (client.has_greeted()) strangers_.erase(id);
  } catch (const std::exception& error) {  // the client violated the protocol or a limit, or memory ran out
    refused_clients_ += client.was_refused();
    drop(id, error.what());
  }
  while (memory_ > max_memory) drop_the_largest();
}

void TcpStoreServer::Loop::drop(ClientId id, const char* reason) {
  clients_.at(id).refuse(reason);
  service_.forget(id);
  strangers_.erase(id);
  clients_.erase(id);
}

bool TcpStoreServer::Loop::drop_a_stranger() {
  if (strangers_.empty()) return false;
  drop(*strangers_.begin());
  return true;
}

bool TcpStoreServer::Loop::drop_an_idle_client() {
  if (!token_.empty()) return false;
  auto longest = RunningTime::now() - idle_time_;
  auto found = clients_.end();
  for (auto client = clients_.begin(); client != clients_.end(); ++client) {
    if (client->second.last_heard() > longest || service_.is_waiting(client->first)) continue;
    longest = client->second.last_heard();
    found = client;
  }
  if (found == clients_.end()) return false;
  drop(found->first);
  return true;
}

void TcpStoreServer::Loop::drop_the_largest() {
  drop(std::max_element(clients_.begin(), clients_.end(), [](const auto& a, const auto& b) {
         return a.second.memory() < b.second.memory();
       })->first);
}

TcpStoreServer::TcpStoreServer(const Options& options) : loop_(std::make_unique<Loop>(options)) {}
TcpStoreServer::~TcpStoreServer() = default;
int TcpStoreServer::port() const { return loop_->port(); }
int TcpStoreServer::refused_clients() const { return loop_->refused_clients(); }
int TcpStoreServer::clients() const { return loop_->clients(); }

}  // namespace tandem::distributed
