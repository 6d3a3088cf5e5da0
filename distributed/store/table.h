// StoreTable: the contents of a store's server, which are keys with their values, and queues, in bounded memory.
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

// A call throws an Error and changes nothing if the table would need more than 1 GiB of memory, or if add() finds a
// value that is not a number. Only one thread at a time may use a table.
class StoreTable {
 public:
  bool contains(std::string_view key) const { return values_.contains(key) || queues_.contains(key); }
  std::size_t size() const { return values_.size(); }  // the number of keys with a value; queues do not count
  std::size_t bytes() const { return bytes_; }         // a lower bound of the table's memory
  std::vector<std::string> keys() const;

  std::string get(std::string_view key) const;  // empty if the key is missing
  void set(const std::string& key, std::string value);
  // Throws an Error if the value would be longer than `most` bytes.
  void append(const std::string& key, std::string_view more, std::size_t most);
  std::int64_t add(const std::string& key, std::int64_t delta);
  // Sets `key` to `desired` and `changed` to true if the value of `key` is `expected`, or if `key` is missing and
  // `expected` is empty. Returns the value of `key` afterwards, or `expected` if the key is still missing.
  std::string compare_set(const std::string& key, std::string_view expected, std::string_view desired, bool& changed);
  bool erase(const std::string& key);

  void push(const std::string& queue, std::string item);
  std::size_t length(const std::string& queue) const;
  std::string pop(const std::string& queue);  // REQUIRES: length(queue) > 0

 private:
  // Adds `bytes` to bytes_. Throws an Error if the table would be full.
  void charge(std::size_t bytes);

  // A hash table would pause for long to grow, and its users could choose colliding keys.
  std::map<std::string, std::string, std::less<>> values_;
  std::map<std::string, std::list<std::string>, std::less<>> queues_;
  std::size_t bytes_ = 0;
};

}  // namespace tandem::distributed
