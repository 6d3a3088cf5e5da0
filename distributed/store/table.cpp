#include <tandem/core/base/check.h>
#include <tandem/core/base/number_in.h>
#include <tandem/distributed/store/table.h>

#include <utility>

namespace tandem::distributed {
namespace {

// An arbitrary limit: 1 GiB is far more than a job keeps in its store, and not enough to harm a host.
constexpr std::size_t max_bytes = std::size_t{1} << 30;
// The memory of an entry: its bytes, a node of a map (112 bytes), a node of a list (64), and the allocator's overhead
// for each of the two texts (24). Many tiny entries take much more memory than their bytes.
std::size_t cost(const std::string& key, const std::string& value) {
  return key.size() + value.capacity() + 112 + 64 + 2 * 24;
}

}  // namespace

std::vector<std::string> StoreTable::keys() const {
  std::vector<std::string> keys;
  for (const auto& entry : values_) keys.push_back(entry.first);
  return keys;
}

std::string StoreTable::get(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? std::string() : found->second;
}

void StoreTable::set(const std::string& key, std::string value) {
  const auto found = values_.find(key);
  charge(cost(key, value) - (found == values_.end() ? 0 : cost(key, found->second)));
  values_[key].swap(value);  // an assignment might keep the memory of the old value
}

void StoreTable::append(const std::string& key, std::string_view more, std::size_t most) {
  const auto found = values_.find(key);
  if (found == values_.end()) return set(key, std::string(more));
  TANDEM_CHECK(found->second.size() + more.size() <= most, "the value is too long");
  if (found->second.capacity() - found->second.size() < more.size()) return set(key, get(key).append(more));
  found->second.append(more);  // the room is already counted
}

std::int64_t StoreTable::add(const std::string& key, std::int64_t delta) {
  std::int64_t sum = 0;
  if (const auto found = values_.find(key); found != values_.end()) {
    const auto number = number_in<std::int64_t>(found->second);
    TANDEM_CHECK(number, "add: the value of the key is not a number");
    sum = *number;
  }
  TANDEM_CHECK(!__builtin_add_overflow(sum, delta, &sum), "add: the sum does not fit in 64 bits");
  set(key, std::to_string(sum));
  return sum;
}

std::string StoreTable::compare_set(const std::string& key, std::string_view expected, std::string_view desired,
                                    bool& changed) {
  const auto found = values_.find(key);
  changed = found == values_.end() ? expected.empty() : found->second == expected;
  if (changed) set(key, std::string(desired));
  return changed ? std::string(desired) : found == values_.end() ? std::string(expected) : found->second;
}

bool StoreTable::erase(const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  bytes_ -= cost(key, found->second);
  values_.erase(found);
  return true;
}

void StoreTable::push(const std::string& queue, std::string item) {
  charge(cost(queue, item));
  queues_[queue].push_back(std::move(item));
}

std::size_t StoreTable::length(const std::string& queue) const {
  const auto found = queues_.find(queue);
  return found == queues_.end() ? 0 : found->second.size();
}

std::string StoreTable::pop(const std::string& queue) {
  const auto found = queues_.find(queue);
  auto item = std::move(found->second.front());
  bytes_ -= cost(queue, item);
  found->second.pop_front();
  if (found->second.empty()) queues_.erase(found);
  return item;
}

// When a value shrinks, `bytes` is a negative number that has wrapped around. The sum is still correct.
void StoreTable::charge(std::size_t bytes) {
  TANDEM_CHECK(bytes_ + bytes <= max_bytes, "the store is full: its entries may take at most ", max_bytes, " bytes");
  bytes_ += bytes;
}

}  // namespace tandem::distributed
