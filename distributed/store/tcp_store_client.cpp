#include <tandem/distributed/store/tcp_store_connection.h>
#include <tandem/distributed/system/random_text.h>

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace tandem::distributed {

using protocol::Message;
using protocol::Query;

namespace {

std::string quoted(const std::vector<std::string>& keys) {
  std::string text;
  for (std::size_t i = 0; i < keys.size(); ++i) text += (i ? ", \"" : "\"") + keys[i] + "\"";
  return text;
}

std::string in_seconds(RunningTime::duration duration) {
  return fmt::format("{:.1f} s", std::chrono::duration<double>(duration).count());
}

}  // namespace

std::string user_key(const std::string& key) {
  TANDEM_CHECK(key.size() < protocol::max_key_bytes, "store: a key may have at most ", protocol::max_key_bytes - 1,
               " bytes, got ", key.size());
  return protocol::user_prefix + key;
}

void check_value(const std::string& key, const std::string& value) {
  TANDEM_CHECK(value.size() <= protocol::max_value_bytes, "store: the value for key \"", key, "\" has ", value.size(),
               " bytes, at most ", protocol::max_value_bytes, " are allowed");
}

void check_count(std::size_t keys) {
  TANDEM_CHECK(keys <= protocol::max_keys, "store: at most ", protocol::max_keys, " keys at once, got ", keys);
}

Message keys_query(Query query, const std::vector<std::string>& keys) {
  check_count(keys.size());
  Message message;
  message.query(query).u64(keys.size());
  for (const auto& key : keys) message.text(user_key(key));
  return message;
}

void TcpStoreConnection::join() {
  const auto deadline = RunningTime::now() + options_.timeout;
  // A server that is just starting or ending may drop a connection, so a retry makes sense. A server that drops every
  // connection speaks a different protocol or expects a different token, and a longer wait would only hide that. 3 s is
  // long for a start or an end, and short for a user.
  constexpr auto patience = std::chrono::seconds(3);
  auto give_up = Deadline::max();
  for (;;) {
    socket_ = connect_to(options_.host, options_.port, deadline);
    try {
      shake_hands(std::min(deadline, RunningTime::now() + patience));
      return;
    } catch (const Error& error) {
      socket_.close();
      constexpr auto pause = std::chrono::milliseconds(100);
      const auto now = RunningTime::now();
      give_up = std::min(give_up, now + patience);
      TANDEM_CHECK(now + pause < std::min(give_up, deadline), name_,
                   ": connected, but it does not answer as a store: ", error.what(),
                   " (another program listens there, or it expects ",
                   options_.token.empty() ? "a token: run under its launcher, or start that with --open-store)"
                                          : "another job's token)");
      std::this_thread::sleep_for(pause);
    }
  }
}

void TcpStoreConnection::shake_hands(Deadline deadline) {
  Message hello;
  hello.query(Query::validate).u32(protocol::magic);
  if (!options_.token.empty()) {
    const auto mine = random_text(protocol::nonce_words);
    hello.query(Query::compare_set).text(protocol::token_key).text(mine).text(mine);
    send_all(socket_, hello.bytes(), deadline);
    hello = {};
    const auto answer = receive_text(deadline);
    const auto theirs = answer.substr(0, protocol::nonce_bytes);
    is_proved_ = equal_secrets(answer, theirs + protocol::server_proof(options_.token, mine, theirs));
    if (is_proved_) {
      const auto proof = protocol::client_proof(options_.token, mine, theirs);
      hello.query(Query::compare_set).text(protocol::token_key).text(proof).text(proof);
      send_all(socket_, hello.bytes(), deadline);
      hello = {};
      receive_text(deadline);
    } else {
      TANDEM_CHECK(answer == mine && !options_.needs_proof, "it does not prove that it knows the job's token");
    }
  }
  const auto nonce = static_cast<std::uint32_t>(getpid());
  hello.query(Query::ping).u32(nonce);
  send_all(socket_, hello.bytes(), deadline);
  const auto echo = receive<std::uint32_t>(deadline);
  TANDEM_CHECK(echo == nonce, "it answered a ping of ", nonce, " with ", echo);

  Message arrival;
  arrival.query(Query::add).text(protocol::join_key).i64(1);
  send_all(socket_, arrival.bytes(), deadline);
  receive<std::int64_t>(deadline);
}

std::string TcpStoreConnection::farewell() {
  std::string rest(1024, '\0');
  rest.resize(std::max<ssize_t>(::recv(socket_.get(), rest.data(), rest.size(), MSG_DONTWAIT), 0));
  const auto number = Message().u64(protocol::farewell).bytes();
  const auto at = rest.rfind(number);
  if (at == rest.npos) return "";
  return "the server ended the connection: " + rest.substr(std::min(at + 2 * number.size(), rest.size()));
}

bool TcpStoreConnection::await(const Message& message, const char* what, Deadline end, Deadline patience) {
  return exchange(message, what, [&](Deadline) {
    constexpr auto stop = static_cast<std::uint8_t>(protocol::WaitReply::stop);
    constexpr auto canceled = static_cast<std::uint8_t>(protocol::WaitReply::canceled);
    if (wait_readable(socket_, end)) {
      const auto reply = receive<std::uint8_t>(RunningTime::now() + options_.timeout);
      TANDEM_CHECK(reply == stop, "unexpected reply ", int{reply});
      return true;
    }
    // The server must cancel the wait. Otherwise, a later call would mistake the server's late reply for its own. If
    // the server has just sent that reply, the wait has succeeded after all. A server that does not answer within 10 s
    // counts as gone.
    const auto deadline =
        std::max(patience, RunningTime::now() + std::min<Store::Timeout>(options_.timeout, std::chrono::seconds(10)));
    send_all(socket_, Message().query(Query::cancel_wait).bytes(), deadline);
    const auto first = receive<std::uint8_t>(deadline);
    if (first == stop) {
      TANDEM_CHECK(receive<std::uint8_t>(deadline) == canceled, "the wait was not canceled");
      return true;
    }
    TANDEM_CHECK(first == canceled, "unexpected reply ", int{first});
    return false;
  });
}

void TcpStoreConnection::wait(const std::vector<std::string>& keys, Store::Timeout timeout) {
  const auto start = RunningTime::now();
  const Deadline end = start + timeout;
  // Other threads need the connection during a long wait, above all the watchdog of a group. A long wait is therefore
  // split into several short waits. The pause between them lets other threads lock the mutex, which is not fair. A turn
  // is short compared with the watchdog's period of 500 ms, but long enough to send the server few queries.
  constexpr auto turn = std::chrono::milliseconds(250), pause = std::chrono::milliseconds(1);
  const Message query = keys_query(Query::wait, keys);
  for (;;) {
    if (await(query, "wait", std::min<Deadline>(end, RunningTime::now() + turn), end)) return;
    if (RunningTime::now() >= end) break;
    std::this_thread::sleep_for(pause);
  }

  constexpr std::size_t most_named = 16;  // chosen: keeps the message readable
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < keys.size() && missing.size() < most_named; ++i) {
    const bool ready = exchange(keys_query(Query::check, {keys[i]}), "check", [&](Deadline deadline) {
      return receive<std::uint8_t>(deadline) == static_cast<std::uint8_t>(protocol::CheckReply::ready);
    });
    if (!ready) missing.push_back(keys[i]);
  }
  const auto waited = in_seconds(RunningTime::now() - start);
  TANDEM_CHECK(!missing.empty(), name_, ": waited ", waited, " for ", quoted(keys), "; they arrived too late");
  detail::fail(name_, ": waited ", waited, ", but no process set ", quoted(missing),
               missing.size() == most_named ? " (and perhaps more)" : "", " (", keys.size() - missing.size(), " of ",
               keys.size(), " keys arrived)");
}

TcpStore::TcpStore(const Options& options) : connection_(std::make_unique<TcpStoreConnection>(options)) {}
TcpStore::~TcpStore() = default;

Store::Timeout TcpStore::timeout() const { return connection_->timeout(); }
bool TcpStore::is_proved() const { return connection_->is_proved(); }

void TcpStore::set(const std::string& key, const std::string& value) {
  check_value(key, value);
  connection_->exchange(Message().query(Query::set).text(user_key(key)).text(value), "set", [](Deadline) {});
}

std::string TcpStore::get(const std::string& key) {
  connection_->wait({key}, timeout());
  return connection_->exchange(Message().query(Query::get).text(user_key(key)), "get",
                               [&](Deadline deadline) { return connection_->receive_text(deadline); });
}

std::int64_t TcpStore::add(const std::string& key, std::int64_t delta) {
  return connection_->exchange(Message().query(Query::add).text(user_key(key)).i64(delta), "add",
                               [&](Deadline deadline) { return connection_->receive<std::int64_t>(deadline); });
}

void TcpStore::append(const std::string& key, const std::string& value) {
  check_value(key, value);
  connection_->exchange(Message().query(Query::append).text(user_key(key)).text(value), "append", [](Deadline) {});
}

std::string TcpStore::compare_set(const std::string& key, const std::string& expected, const std::string& desired) {
  check_value(key, expected);
  check_value(key, desired);
  return connection_->exchange(Message().query(Query::compare_set).text(user_key(key)).text(expected).text(desired),
                               "compare_set", [&](Deadline deadline) { return connection_->receive_text(deadline); });
}

bool TcpStore::delete_key(const std::string& key) {
  return connection_->exchange(Message().query(Query::delete_key).text(user_key(key)), "delete_key",
                               [&](Deadline deadline) { return connection_->receive<std::int64_t>(deadline) > 0; });
}

bool TcpStore::check(const std::vector<std::string>& keys) {
  return connection_->exchange(keys_query(Query::check, keys), "check", [&](Deadline deadline) {
    return connection_->receive<std::uint8_t>(deadline) == static_cast<std::uint8_t>(protocol::CheckReply::ready);
  });
}

void TcpStore::wait(const std::vector<std::string>& keys, Timeout timeout) { connection_->wait(keys, timeout); }

void TcpStore::set_when_gone(const std::string& key) {
  const auto name = user_key(key);
  const auto kept =
      connection_->exchange(Message().query(Query::compare_set).text(protocol::will_key).text(name).text(""),
                            "set_when_gone", [&](Deadline deadline) { return connection_->receive_text(deadline); });
  TANDEM_CHECK(kept == name, "store: the server has no room for another key to set when this process ends (\"", key,
               "\"): does the program keep creating process groups?");
}

std::string TcpStore::local_address() const { return connection_->local_address(); }

}  // namespace tandem::distributed
