#include <tandem/core/base/check.h>
#include <tandem/distributed/store/session.h>
#include <tandem/distributed/system/random_text.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tandem::distributed {
namespace {

using protocol::Message;
using protocol::Query;
using protocol::Reader;

// The size limit of a query. It has room for two values of the maximum size (8 MiB), far more than ranks send.
constexpr std::size_t max_query_bytes = std::size_t{24} << 20;
// The time limit for answering one client's queries while the other clients wait. It is enough for hundreds of typical
// queries.
constexpr auto longest_turn = std::chrono::milliseconds(1);
// The size limit of the greeting: a compare_set of a short key with two proofs of 64 bytes.
constexpr std::size_t max_greeting_bytes = 1024;
// A larger buffer is freed as soon as it is empty. Typical queries and replies are much smaller, so their buffers stay
// allocated.
constexpr std::size_t kept_bytes = std::size_t{64} << 10;

void set_option(int socket, int level, int name, int value) { setsockopt(socket, level, name, &value, sizeof value); }

void empty(std::string& buffer) noexcept {
  if (buffer.capacity() > kept_bytes) {
    std::string().swap(buffer);
  } else {
    buffer.clear();
  }
}

}  // namespace

StoreSession::StoreSession(FileDescriptor socket, const std::string& token, std::size_t& memory,
                           Deadline greeting_deadline)
    : socket_(std::move(socket)),
      token_(token),
      all_memory_(memory),
      greeting_deadline_(greeting_deadline),
      is_trusted_(token.empty()) {
  set_option(fd(), IPPROTO_TCP, TCP_NODELAY, 1);
  // A host that loses power or its network sends nothing. The system sends a probe after 60 silent seconds, and then
  // every 10 s. Six missing answers end the connection. The server thus notices within two minutes that a host has
  // vanished.
  set_option(fd(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd(), IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set_option(fd(), IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(fd(), IPPROTO_TCP, TCP_KEEPCNT, 6);
}

StoreSession::~StoreSession() { all_memory_ -= counted_; }

void StoreSession::count() noexcept {
  const auto now = received_.capacity() + replies_.capacity();
  all_memory_ += now - counted_;
  counted_ = now;
}

void StoreSession::serve(std::vector<char>& chunk, const std::function<void(Reader&)>& answer) {
  flush();
  TANDEM_CHECK(!is_over_, "connection closed");
  if (!replies_.empty()) return;
  const auto start = RunningTime::now();
  if (!has_queries_) {
    const auto n = ::recv(fd(), chunk.data(), chunk.size(), 0);
    TANDEM_CHECK(n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)), "connection closed");
    if (n < 0) return;
    last_heard_ = start;
    received_.append(chunk.data(), static_cast<std::size_t>(n));
  }
  std::size_t used = 0;
  try {
    do {
      Reader reader(std::string_view(received_).substr(used));
      has_greeted() ? answer(reader) : greet(reader);
      used = received_.size() - reader.left();
    } while (used < received_.size() && !is_over_ && replies_.empty() && RunningTime::now() < start + longest_turn);
    has_queries_ = used < received_.size();
  } catch (const protocol::Incomplete&) {
    has_queries_ = false;
  }
  used == received_.size() ? empty(received_) : void(received_.erase(0, used));
  count();
  TANDEM_CHECK(received_.size() <= (has_greeted() ? max_query_bytes : max_greeting_bytes), "the query is too long");
}

void StoreSession::greet(Reader& reader) {
  const auto query = static_cast<Query>(reader.number<std::uint8_t>());
  if (!is_valid_) {
    TANDEM_CHECK(query == Query::validate && reader.number<std::uint32_t>() == protocol::magic, "no greeting");
    is_valid_ = true;
    return;
  }
  std::string said;
  if (query == Query::compare_set && reader.text(max_greeting_bytes) == protocol::token_key) {
    const auto expected = reader.text(max_greeting_bytes);
    const auto desired = reader.text(max_greeting_bytes);
    if (expected == desired) said = expected;
  }
  if (client_nonce_.empty() && said.size() == protocol::nonce_bytes) {
    client_nonce_ = said;
    server_nonce_ = random_text(protocol::nonce_words);
    return reply(Message().text(server_nonce_ + protocol::server_proof(token_, client_nonce_, server_nonce_)));
  }
  is_trusted_ =
      !client_nonce_.empty() && equal_secrets(said, protocol::client_proof(token_, client_nonce_, server_nonce_));
  was_refused_ = !is_trusted_;
  TANDEM_CHECK(is_trusted_, "the client did not prove the token");
  reply(Message().text(said));
}

void StoreSession::reply(const Message& message) noexcept try {
  replies_ += message.bytes();
  flush();
} catch (const std::exception&) {  // out of memory
  is_over_ = true;
  ::shutdown(fd(), SHUT_RDWR);
}

// Only clients of this project prove a token. Other clients would interpret the message as a reply.
void StoreSession::refuse(const char* reason) noexcept try {
  if (is_trusted_ && !token_.empty()) reply(Message().u64(protocol::farewell).u64(protocol::farewell).text(reason));
} catch (const std::exception&) {  // memory has run out
}

void StoreSession::flush() noexcept {
  while (sent_ < replies_.size()) {
    const auto n = ::send(fd(), replies_.data() + sent_, replies_.size() - sent_, MSG_NOSIGNAL);
    if (n >= 0) {
      sent_ += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      return count();
    } else if (errno != EINTR) {
      is_over_ = true;  // the connection is lost
      break;
    }
  }
  empty(replies_);
  sent_ = 0;
  count();
}

}  // namespace tandem::distributed
