#include <tandem/core/check.h>
#include <tandem/distributed/socket.h>
#include <tandem/distributed/store_table.h>
#include <tandem/distributed/tcp_store.h>
#include <tandem/distributed/tcp_store_protocol.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <thread>
#include <unordered_map>

namespace tandem::distributed {
namespace {

using protocol::Message;
using protocol::Query;
using protocol::Reader;
using std::chrono::steady_clock;

// What one query may take in all, and what one client may leave unread: both far above what ranks need.
constexpr std::size_t max_query_bytes = std::size_t{64} << 20;
constexpr std::size_t max_unread_bytes = std::size_t{64} << 20;
// Before it has proved itself a client gets neither memory nor time.
constexpr std::size_t max_greeting_bytes = 1024;
constexpr auto greeting_time = std::chrono::seconds(10);

struct Client {
  FileDescriptor socket;
  Deadline greeting_deadline;
  bool is_valid = false;    // has sent the magic
  bool is_trusted = false;  // has proved the token, or none is asked for
  std::string received;     // not yet understood
  std::string replies;      // from `sent` on, the socket has not taken them yet
  std::size_t sent = 0;
  std::set<std::string> awaited;
};

// Takes the same time wherever the two differ.
bool equal_secrets(std::string_view a, std::string_view b) {
  unsigned difference = a.size() != b.size();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

// All state belongs to the thread that runs run(), but for the members marked otherwise.
class TcpStoreServer::Loop {
 public:
  explicit Loop(const Options& options)
      : token_(options.token),
        listener_(listen_on(options.host, options.port)),
        port_(local_port(listener_)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    TANDEM_CHECK(wake_.is_open(), "store: cannot make an event: ", std::strerror(errno));
    TANDEM_CHECK(token_.size() < max_greeting_bytes / 4, "store: the token has ", token_.size(),
                 " bytes, at most ", max_greeting_bytes / 4 - 1, " are allowed");
    thread_ = std::thread([this] { run(); });
  }

  ~Loop() {
    const std::uint64_t one = 1;
    while (::write(wake_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
    thread_.join();
  }

  int port() const { return port_; }
  int refused_clients() const { return refused_clients_; }

 private:
  using ClientId = std::uint64_t;

  void run();
  void accept_clients();
  void serve(ClientId id, short events);
  void drop(ClientId id);
  void receive(Client& client);
  void understand(ClientId id, Client& client);
  void answer(ClientId id, Client& client, Reader& reader);
  void greet(Client& client, Query query, Reader& reader);
  void send(Client& client, const Message& message);
  void release(Client& client);
  void flush(Client& client);
  void put(const std::string& key, std::string value);
  void key_arrived(const std::string& key);
  void start_wait(ClientId id, Client& client, std::vector<std::string> keys);
  void cancel_wait(ClientId id, Client& client);

  // Set before the thread starts, and never changed; any thread may read them.
  const std::string token_;
  FileDescriptor listener_;
  const int port_;
  FileDescriptor wake_;
  std::atomic<int> refused_clients_{0};

  std::vector<char> chunk_ = std::vector<char>(std::size_t{256} << 10);
  std::map<ClientId, Client> clients_;
  ClientId next_id_ = 0;
  Deadline accept_again_{};  // when no descriptor was left for a client, the next try
  StoreTable table_;
  std::unordered_map<std::string, std::set<ClientId>> waiting_;   // by the key they wait for
  std::unordered_map<std::string, std::set<ClientId>> barriers_;  // who has arrived there
  std::thread thread_;
};

void TcpStoreServer::Loop::run() {
  std::vector<pollfd> watched;
  std::vector<ClientId> ids;
  for (;;) {
    const auto now = steady_clock::now();
    auto next = Deadline::max();
    watched.assign({{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}});
    if (accept_again_ > now) {
      watched[1].events = 0;
      next = accept_again_;
    }
    ids.clear();
    for (const auto& [id, client] : clients_) {
      const short wants = static_cast<short>(POLLIN | (client.replies.empty() ? 0 : POLLOUT));
      watched.push_back({client.socket.get(), wants, 0});
      ids.push_back(id);
      if (!client.is_trusted || !client.is_valid) next = std::min(next, client.greeting_deadline);
    }
    if (::poll(watched.data(), watched.size(), next == Deadline::max() ? -1 : poll_timeout(next)) < 0)
      continue;
    if (watched[0].revents) return;
    if (watched[1].revents) accept_clients();
    for (std::size_t i = 0; i < ids.size(); ++i) serve(ids[i], watched[i + 2].revents);
  }
}

void TcpStoreServer::Loop::accept_clients() {
  for (;;) {
    FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) {
      // Out of descriptors or memory: the listener stays readable, so ask again only after a pause.
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        accept_again_ = steady_clock::now() + std::chrono::milliseconds(100);
      }
      return;
    }
    const int on = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    Client client;
    client.socket = std::move(socket);
    client.greeting_deadline = steady_clock::now() + greeting_time;
    client.is_trusted = token_.empty();
    clients_.emplace(next_id_++, std::move(client));
  }
}

void TcpStoreServer::Loop::serve(ClientId id, short events) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;  // another client's query has just ended it
  auto& client = found->second;
  try {
    const bool greets = !client.is_valid || !client.is_trusted;
    TANDEM_CHECK(!greets || steady_clock::now() < client.greeting_deadline, "no greeting");
    if (events & POLLOUT) flush(client);
    if (events & ~POLLOUT) {
      receive(client);
      understand(id, client);
    }
  } catch (const std::exception&) {  // what it broke, or memory that ran out while it was served
    drop(id);
  }
}

void TcpStoreServer::Loop::drop(ClientId id) {
  const auto found = clients_.find(id);
  cancel_wait(id, found->second);
  for (auto entry = barriers_.begin(); entry != barriers_.end();) {
    entry->second.erase(id);
    entry = entry->second.empty() ? barriers_.erase(entry) : std::next(entry);
  }
  clients_.erase(found);
}

void TcpStoreServer::Loop::receive(Client& client) {
  // One chunk a turn: a client that never stops sending does not keep the others waiting.
  const auto n = ::recv(client.socket.get(), chunk_.data(), chunk_.size(), 0);
  TANDEM_CHECK(n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)), "connection closed");
  if (n < 0) return;
  client.received.append(chunk_.data(), static_cast<std::size_t>(n));
}

void TcpStoreServer::Loop::understand(ClientId id, Client& client) {
  std::size_t used = 0;
  try {
    while (used < client.received.size()) {
      Reader reader(std::string_view(client.received).substr(used));
      answer(id, client, reader);
      used = client.received.size() - reader.left();
    }
  } catch (const protocol::Incomplete&) {
  }
  client.received.erase(0, used);
  const bool greets = !client.is_valid || !client.is_trusted;
  TANDEM_CHECK(client.received.size() <= (greets ? max_greeting_bytes : max_query_bytes), "a query too long");
}

void TcpStoreServer::Loop::greet(Client& client, Query query, Reader& reader) {
  if (!client.is_valid) {
    TANDEM_CHECK(query == Query::validate && reader.number<std::uint32_t>() == protocol::magic,
                 "no greeting");
    client.is_valid = true;
    return;
  }
  bool proved = false;
  if (query == Query::compare_set && reader.text(max_greeting_bytes) == protocol::token_key) {
    const auto expected = reader.text(max_greeting_bytes);
    const auto desired = reader.text(max_greeting_bytes);
    proved = equal_secrets(expected, token_) && equal_secrets(desired, token_);
  }
  if (!proved) {
    ++refused_clients_;
    detail::fail("no token");
  }
  client.is_trusted = true;
  send(client, Message().text(token_));
}

// Every argument is read before anything is changed: Incomplete leaves no trace.
void TcpStoreServer::Loop::answer(ClientId id, Client& client, Reader& reader) {
  const auto query = static_cast<Query>(reader.number<std::uint8_t>());
  if (!client.is_valid || !client.is_trusted) return greet(client, query, reader);
  switch (query) {
    case Query::set: {
      const auto key = reader.key();
      return put(key, std::string(reader.value()));
    }
    case Query::compare_set: {
      const auto key = reader.key();
      const auto expected = reader.value();
      const auto desired = reader.value();
      bool changed = false;
      send(client, Message().text(table_.compare_set(key, expected, desired, changed)));
      return changed ? key_arrived(key) : void();
    }
    case Query::get: return send(client, Message().text(table_.get(reader.key())));
    case Query::add: {
      const auto key = reader.key();
      send(client, Message().i64(table_.add(key, reader.number<std::int64_t>())));
      return key_arrived(key);
    }
    case Query::check: {
      const auto keys = reader.keys();
      const bool ready =
          std::all_of(keys.begin(), keys.end(), [this](const auto& key) { return table_.contains(key); });
      return send(client,
                  Message().u8(ready ? protocol::CheckReply::ready : protocol::CheckReply::not_ready));
    }
    case Query::wait: return start_wait(id, client, reader.keys());
    case Query::cancel_wait:
      cancel_wait(id, client);
      return send(client, Message().u8(protocol::WaitReply::canceled));
    case Query::key_count: return send(client, Message().i64(static_cast<std::int64_t>(table_.size())));
    case Query::delete_key: return send(client, Message().i64(table_.erase(reader.key())));
    case Query::append: {
      const auto key = reader.key();
      const auto more = reader.value();
      return put(key, table_.get(key).append(more));
    }
    case Query::multi_get: {
      Message reply;
      for (const auto& key : reader.keys()) {
        reply.text(table_.get(key));
        TANDEM_CHECK(reply.bytes().size() <= max_unread_bytes, "a reply too long");
      }
      return send(client, reply);
    }
    case Query::multi_set: {
      std::vector<std::pair<std::string, std::string_view>> pairs;
      for (auto n = reader.count(); n > 0; --n) {
        auto key = reader.key();
        pairs.emplace_back(std::move(key), reader.value());
      }
      for (const auto& [key, value] : pairs) put(key, std::string(value));
      return;
    }
    case Query::ping: return send(client, Message().u32(reader.number<std::uint32_t>()));
    case Query::queue_push: {
      const auto key = reader.key();
      table_.push(key, std::string(reader.value()));
      return key_arrived(key);
    }
    case Query::queue_pop: {
      const auto key = reader.key();
      const auto length = table_.length(key);  // the item that goes is counted
      Message reply;
      reply.i64(static_cast<std::int64_t>(length));
      if (length > 0) reply.text(table_.pop(key));
      return send(client, reply);
    }
    case Query::queue_length:
      return send(client, Message().i64(static_cast<std::int64_t>(table_.length(reader.key()))));
    case Query::list_keys: {
      Message reply;
      reply.i64(static_cast<std::int64_t>(table_.size()));
      for (const auto& key : table_.keys()) reply.text(key);
      return send(client, reply);
    }
    case Query::barrier: {
      const auto key = reader.key();
      const auto world_size = reader.number<std::int64_t>();
      barriers_[key].insert(id);
      if (table_.add(key, 1) < world_size) return;
      const auto arrived = std::move(barriers_[key]);
      barriers_.erase(key);
      for (const auto other : arrived) release(clients_.at(other));
      return key_arrived(key);
      return;
    }
    case Query::validate: break;
  }
  detail::fail("a query out of place");
}

void TcpStoreServer::Loop::start_wait(ClientId id, Client& client, std::vector<std::string> keys) {
  std::erase_if(keys, [this](const auto& key) { return table_.contains(key); });
  if (keys.empty()) return send(client, Message().u8(protocol::WaitReply::stop));
  TANDEM_CHECK(client.awaited.size() + keys.size() <= protocol::max_keys, "too many keys awaited at once");
  for (auto& key : keys) {
    client.awaited.insert(key);
    waiting_[std::move(key)].insert(id);
  }
}

void TcpStoreServer::Loop::cancel_wait(ClientId id, Client& client) {
  for (const auto& key : client.awaited) {
    const auto entry = waiting_.find(key);
    if (entry == waiting_.end()) continue;  // memory ran out as the wait began
    entry->second.erase(id);
    if (entry->second.empty()) waiting_.erase(entry);
  }
  client.awaited.clear();
}

void TcpStoreServer::Loop::send(Client& client, const Message& message) {
  TANDEM_CHECK(client.replies.size() + message.bytes().size() <= max_unread_bytes, "replies are not read");
  client.replies += message.bytes();
  flush(client);
}

// In the turn of another client, which must not pay for what this one did.
void TcpStoreServer::Loop::release(Client& client) {
  try {
    send(client, Message().u8(protocol::WaitReply::stop));
  } catch (const std::exception&) {
    ::shutdown(client.socket.get(), SHUT_RDWR);  // its own next turn drops it
  }
}

void TcpStoreServer::Loop::flush(Client& client) {
  while (client.sent < client.replies.size()) {
    const auto n = ::send(client.socket.get(), client.replies.data() + client.sent,
                          client.replies.size() - client.sent, MSG_NOSIGNAL);
    if (n >= 0) {
      client.sent += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      break;  // its end is noticed when it is read from
    }
  }
  client.replies.clear();
  client.sent = 0;
}

void TcpStoreServer::Loop::put(const std::string& key, std::string value) {
  table_.set(key, std::move(value));
  key_arrived(key);
}

void TcpStoreServer::Loop::key_arrived(const std::string& key) {
  const auto entry = waiting_.find(key);
  if (entry == waiting_.end()) return;
  const auto ids = std::move(entry->second);
  waiting_.erase(entry);
  for (const auto id : ids) {
    auto& client = clients_.at(id);
    client.awaited.erase(key);
    if (client.awaited.empty()) release(client);
  }
}

TcpStoreServer::TcpStoreServer(const Options& options) : loop_(std::make_unique<Loop>(options)) {}
TcpStoreServer::~TcpStoreServer() = default;
int TcpStoreServer::port() const { return loop_->port(); }
int TcpStoreServer::refused_clients() const { return loop_->refused_clients(); }

}  // namespace tandem::distributed
