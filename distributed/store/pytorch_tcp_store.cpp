#include <tandem/distributed/store/pytorch_tcp_store.h>
#include <tandem/distributed/store/tcp_store_connection.h>

#include <algorithm>
#include <optional>

namespace tandem::distributed {

using protocol::Message;
using protocol::Query;

namespace {

// The memory limit for the texts of one reply. Without it, a server could make this process allocate without bound. A
// server of this project never holds more in total.
constexpr std::size_t most_bytes_of_reply = std::size_t{1} << 30;

// Receives one of the texts of a reply, and subtracts its memory from `bytes_left`.
std::string receive_text_of_many(TcpStoreConnection& connection, Deadline deadline, std::size_t most,
                                 std::size_t& bytes_left) {
  auto text = connection.receive_text(deadline, most);
  const auto bytes = text.size() + sizeof text;
  TANDEM_CHECK(bytes <= bytes_left, "the reply has more than ", most_bytes_of_reply, " bytes");
  bytes_left -= bytes;
  return text;
}

}  // namespace

std::vector<std::string> PyTorchTcpStore::multi_get(const std::vector<std::string>& keys) {
  return connection().exchange(keys_query(Query::multi_get, keys), "multi_get", [&](Deadline deadline) {
    std::size_t bytes_left = most_bytes_of_reply;
    std::vector<std::string> values;
    for (std::size_t i = 0; i < keys.size(); ++i)
      values.push_back(receive_text_of_many(connection(), deadline, protocol::max_value_bytes, bytes_left));
    return values;
  });
}

void PyTorchTcpStore::multi_set(const std::vector<std::pair<std::string, std::string>>& entries) {
  check_count(entries.size());
  Message message;
  message.query(Query::multi_set).u64(entries.size());
  for (const auto& [key, value] : entries) {
    check_value(key, value);
    message.text(user_key(key)).text(value);
  }
  connection().exchange(message, "multi_set", [](Deadline) {});
}

std::int64_t PyTorchTcpStore::key_count() {
  return connection().exchange(Message().query(Query::key_count), "key_count",
                               [&](Deadline deadline) { return connection().receive<std::int64_t>(deadline); });
}

std::vector<std::string> PyTorchTcpStore::keys() {
  return connection().exchange(Message().query(Query::list_keys), "keys", [&](Deadline deadline) {
    std::size_t bytes_left = most_bytes_of_reply;
    std::vector<std::string> keys;
    for (auto n = connection().receive<std::int64_t>(deadline); n > 0; --n) {
      auto key = receive_text_of_many(connection(), deadline, protocol::max_key_bytes, bytes_left);
      if (key.starts_with(protocol::user_prefix)) keys.push_back(key.substr(1));
    }
    return keys;
  });
}

void PyTorchTcpStore::queue_push(const std::string& queue, const std::string& item) {
  check_value(queue, item);
  connection().exchange(Message().query(Query::queue_push).text(user_key(queue)).text(item), "queue_push",
                        [](Deadline) {});
}

std::string PyTorchTcpStore::queue_pop(const std::string& queue) {
  const auto end = RunningTime::now() + timeout();
  const auto message = Message().query(Query::queue_pop).text(user_key(queue));
  for (;;) {
    const auto left = std::chrono::ceil<Timeout>(end - RunningTime::now());
    connection().wait({queue}, std::max(left, Timeout(0)));
    // Another client may have popped the item after the wait.
    const auto item = connection().exchange(message, "queue_pop", [&](Deadline deadline) {
      const bool is_there = connection().receive<std::int64_t>(deadline) > 0;
      return is_there ? std::optional(connection().receive_text(deadline)) : std::nullopt;
    });
    if (item) return *item;
  }
}

std::int64_t PyTorchTcpStore::queue_length(const std::string& queue) {
  return connection().exchange(Message().query(Query::queue_length).text(user_key(queue)), "queue_length",
                               [&](Deadline deadline) { return connection().receive<std::int64_t>(deadline); });
}

void PyTorchTcpStore::barrier(const std::string& key, int world_size) {
  const auto message = Message().query(Query::barrier).text(user_key(key)).i64(world_size);
  const auto end = RunningTime::now() + timeout();
  TANDEM_CHECK(connection().await(message, "barrier", end, end), "store: not all ", world_size,
               " clients have reached barrier \"", key, "\" within ", std::chrono::duration<double>(timeout()).count(),
               " s");
}

}  // namespace tandem::distributed
