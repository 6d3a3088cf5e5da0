#include <tandem/core/base/check.h>
#include <tandem/distributed/store/service.h>

#include <algorithm>
#include <utility>

namespace tandem::distributed {
namespace {

using protocol::Message;
using protocol::Query;

// The limit for a reply, and for a value that append() extends. It has room for two values of the maximum size.
constexpr std::size_t max_reply_bytes = std::size_t{16} << 20;
// The memory limit for all waits and wills together. There is room for about 200,000 short keys. A rank waits for only
// a few.
constexpr std::size_t max_wait_bytes = std::size_t{64} << 20;
// The memory of an awaited key in addition to its bytes: nodes of a set (80), a map (128) and a set of clients (48),
// and the allocator's overhead for its two texts (24 each).
constexpr std::size_t wait_overhead = 80 + 128 + 48 + 2 * 24;
// The limit of keys in the will of one client. A rank needs one key for each process group that it has at a time, and
// jobs have far fewer than 4096 groups.
constexpr std::size_t max_will = 4096;

}  // namespace

// Each case reads all arguments before it changes anything, so nothing has changed when Incomplete is thrown.
void StoreService::answer(ClientId client, protocol::Reader& reader) {
  const auto reply = [&](const Message& message) { reply_(client, message); };
  const auto reply_number = [&](std::size_t n) { reply(Message().i64(static_cast<std::int64_t>(n))); };
  switch (static_cast<Query>(reader.number<std::uint8_t>())) {
    case Query::set: {
      const auto key = reader.key();
      const auto value = reader.value();
      take_from_will(client, key);
      return put(key, std::string(value));
    }
    case Query::compare_set: {
      const auto key = reader.key();
      const auto expected = reader.value();
      const auto desired = reader.value();
      if (key == protocol::will_key) {
        return reply(Message().text(add_to_will(client, std::string(expected)) ? expected : ""));
      }
      bool changed = false;
      reply(Message().text(table_.compare_set(key, expected, desired, changed)));
      return changed ? key_arrived(key) : void();
    }
    case Query::get: return reply(Message().text(table_.get(reader.key())));
    case Query::add: {
      const auto key = reader.key();
      reply(Message().i64(table_.add(key, reader.number<std::int64_t>())));
      return key_arrived(key);
    }
    case Query::check: {
      const auto keys = reader.keys();
      const bool ready =
          std::all_of(keys.begin(), keys.end(), [this](const auto& key) { return table_.contains(key); });
      return reply(Message().u8(ready ? protocol::CheckReply::ready : protocol::CheckReply::not_ready));
    }
    case Query::wait: return start_wait(client, reader.keys());
    case Query::cancel_wait: stop_waiting(client); return reply(Message().u8(protocol::WaitReply::canceled));
    case Query::key_count: return reply_number(table_.size());
    case Query::delete_key: return reply_number(table_.erase(reader.key()));
    case Query::append: {
      const auto key = reader.key();
      table_.append(key, reader.value(), max_reply_bytes);
      return key_arrived(key);
    }
    case Query::multi_get: {
      Message values;
      for (const auto& key : reader.keys()) {
        values.text(table_.get(key));
        TANDEM_CHECK(values.bytes().size() <= max_reply_bytes + 8 * protocol::max_keys, "the reply is too long");
      }
      return reply(values);
    }
    case Query::multi_set: {
      std::vector<std::pair<std::string_view, std::string_view>> pairs;
      for (auto n = reader.count(); n > 0; --n) {
        const auto key = reader.text(protocol::max_key_bytes);
        pairs.emplace_back(key, reader.value());
      }
      for (const auto& [key, value] : pairs) put(std::string(key), std::string(value));
      return;
    }
    case Query::ping: return reply(Message().u32(reader.number<std::uint32_t>()));
    case Query::queue_push: {
      const auto key = reader.key();
      table_.push(key, std::string(reader.value()));
      return key_arrived(key, 1);
    }
    case Query::queue_pop: {
      const auto key = reader.key();
      const auto length = table_.length(key);  // includes the item that is removed, so 0 means that the queue was empty
      Message item;
      item.i64(static_cast<std::int64_t>(length));
      if (length > 0) item.text(table_.pop(key));
      return reply(item);
    }
    case Query::queue_length: return reply_number(table_.length(reader.key()));
    case Query::list_keys: {
      Message keys;
      TANDEM_CHECK(table_.size() <= protocol::max_keys, "the reply is too long");
      keys.i64(static_cast<std::int64_t>(table_.size()));
      for (const auto& key : table_.keys()) {
        keys.text(key);
        TANDEM_CHECK(keys.bytes().size() <= max_reply_bytes, "the reply is too long");
      }
      return reply(keys);
    }
    case Query::barrier: {
      const auto key = reader.key();
      return enter_barrier(client, key, reader.number<std::int64_t>());
    }
    case Query::validate: break;
  }
  detail::fail("unexpected query");
}

void StoreService::start_wait(ClientId client, std::vector<std::string_view> keys) {
  std::erase_if(keys, [this](const auto& key) { return table_.contains(key); });
  if (keys.empty()) return reply_(client, Message().u8(protocol::WaitReply::stop));
  std::size_t bytes = 0;
  for (const auto& key : keys) bytes += 2 * key.size() + wait_overhead;
  TANDEM_CHECK(wait_bytes_ + bytes <= max_wait_bytes, "clients wait for too many keys at once");
  auto& wait = waits_[client];
  wait_bytes_ += bytes;
  wait.bytes += bytes;
  for (const auto& key : keys) {
    wait.keys.emplace(key);
    waiting_[std::string(key)].insert(client);
  }
}

void StoreService::enter_barrier(ClientId client, const std::string& key, std::int64_t world_size) {
  const bool is_last = table_.add(key, 1) >= world_size;
  const std::string gate = "tandem/barrier" + key;  // a key that the clients wait for, and that is never set
  start_wait(client, {gate});
  if (!is_last) return;
  key_arrived(gate);
  key_arrived(key);
}

void StoreService::stop_waiting(ClientId client) {
  const auto found = waits_.find(client);
  if (found == waits_.end()) return;
  for (const auto& key : found->second.keys) {
    const auto place = waiting_.find(key);
    if (place == waiting_.end()) continue;  // memory ran out when the wait began, before this entry was made
    place->second.erase(client);
    if (place->second.empty()) waiting_.erase(place);
  }
  wait_bytes_ -= found->second.bytes;
  waits_.erase(found);
}

// A key that exceeds a limit does not end the client's connection, because the client needs the connection more than
// the will.
bool StoreService::add_to_will(ClientId client, const std::string& key) {
  auto& will = wills_[client];
  const auto bytes = key.size() + wait_overhead;
  if (key.size() > protocol::max_key_bytes || wait_bytes_ + bytes > max_wait_bytes) return false;
  if (will.size() >= max_will && will.count(key) == 0) return false;
  if (will.insert(key).second) wait_bytes_ += bytes;
  return true;
}

void StoreService::take_from_will(ClientId client, const std::string& key) {
  const auto will = wills_.find(client);
  if (will != wills_.end() && will->second.erase(key) > 0) wait_bytes_ -= key.size() + wait_overhead;
}

void StoreService::forget(ClientId client) noexcept {
  stop_waiting(client);
  const auto will = wills_.find(client);
  if (will == wills_.end()) return;
  for (const auto& key : will->second) {
    wait_bytes_ -= key.size() + wait_overhead;
    try {
      put(key, "");
    } catch (const std::exception&) {  // the table is full, so other processes don't notice that this client is gone
    }
  }
  wills_.erase(will);
}

void StoreService::put(const std::string& key, std::string value) {
  table_.set(key, std::move(value));
  key_arrived(key);
}

void StoreService::key_arrived(const std::string& key, std::size_t most) {
  for (; most > 0; --most) {
    const auto place = waiting_.find(key);
    if (place == waiting_.end()) return;
    const auto client = *place->second.begin();
    place->second.erase(client);
    if (place->second.empty()) waiting_.erase(place);
    auto& keys = waits_.at(client).keys;
    keys.erase(key);
    if (!keys.empty()) continue;
    stop_waiting(client);
    reply_(client, Message().u8(protocol::WaitReply::stop));
  }
}

}  // namespace tandem::distributed
