// What a store's server holds: keys with their values, and queues, in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::distributed {

// A call throws an Error and changes nothing if the table would take more than 1 GiB of memory, or if `add` meets a
// value that is not a number. Only one thread may use a table at a time.
class StoreTable {
 public:
  bool contains(std::string_view key) const { return values_.contains(key) || queues_.contains(key); }
  std::size_t size() const { return values_.size(); }  // the number of keys with a value; queues do not count
  std::size_t bytes() const { return bytes_; }         // the memory that the table takes, or less
  std::vector<std::string> keys() const;

  std::string get(std::string_view key) const;  // empty when missing
  void set(const std::string& key, std::string value);
  std::int64_t add(const std::string& key, std::int64_t delta);
  // Sets `key` to `desired` and `changed` to true if `key` holds `expected`, or if `key` is missing and `expected` is
  // empty. Returns what `key` holds afterwards; `expected` if the key is still missing.
  std::string compare_set(const std::string& key, std::string_view expected, std::string_view desired, bool& changed);
  bool erase(const std::string& key);

  void push(const std::string& queue, std::string item);
  std::size_t length(const std::string& queue) const;
  std::string pop(const std::string& queue);  // REQUIRES: length(queue) > 0

 private:
  // Adds to bytes_. Error if the table would be full.
  void charge(std::size_t bytes);

  // A hash table would stop for long to grow, and its users could choose keys that share a place.
  std::map<std::string, std::string, std::less<>> values_;
  std::map<std::string, std::list<std::string>, std::less<>> queues_;
  std::size_t bytes_ = 0;
};

}  // namespace tandem::distributed
