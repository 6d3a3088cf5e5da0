// What a store's server holds: keys with their values, and queues, in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tandem::distributed {

// A call throws an Error, and changes nothing, when the memory is used up or when add meets a value that is no number.
// Only one thread may use a table.
class StoreTable {
 public:
  bool contains(const std::string& key) const { return values_.count(key) > 0 || queues_.count(key) > 0; }
  std::size_t size() const { return values_.size(); }  // values, not queues
  std::vector<std::string> keys() const;

  std::string get(const std::string& key) const;  // empty when missing
  void set(const std::string& key, std::string value);
  std::int64_t add(const std::string& key, std::int64_t delta);
  // What the reply says: `desired` if it was set (then `changed`), else the value there, or `expected` when missing.
  std::string compare_set(const std::string& key, std::string_view expected, std::string_view desired, bool& changed);
  bool erase(const std::string& key);

  void push(const std::string& queue, std::string item);
  std::size_t length(const std::string& queue) const;
  std::string pop(const std::string& queue);  // REQUIRES: length(queue) > 0

 private:
  void charge(std::size_t bytes);

  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::deque<std::string>> queues_;
  std::size_t bytes_ = 0;
};

}  // namespace tandem::distributed
