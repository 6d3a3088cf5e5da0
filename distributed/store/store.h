// Store: the small shared table of bytes through which the ranks of a job find each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tandem::distributed {

// Every key is set by some rank and read by others; for addresses and agreements, not for tensors.
// Values are bytes, possibly empty. Every call that waits throws an Error after timeout(); the Error names the keys.
// Any thread may call a store. A store serves one call at a time, so a thread that waits holds up the others.
class Store {
 public:
  using Timeout = std::chrono::milliseconds;
  static constexpr Timeout default_timeout = std::chrono::seconds(300);

  virtual ~Store() = default;
  virtual Timeout timeout() const = 0;

  virtual void set(const std::string& key, const std::string& value) = 0;
  // The value of `key`, as soon as somebody has set it.
  virtual std::string get(const std::string& key) = 0;
  // Adds to the number that `key` holds in decimal (0 where it is missing) and returns the sum.
  virtual std::int64_t add(const std::string& key, std::int64_t delta) = 0;
  virtual void append(const std::string& key, const std::string& value) = 0;
  // Sets `key` to `desired` if it holds `expected`, or if it is missing and `expected` is empty. Returns what
  // `key` holds afterwards; for a missing key that stays missing, `expected`.
  virtual std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) = 0;
  virtual bool delete_key(const std::string& key) = 0;  // returns whether the key existed
  virtual bool check(const std::vector<std::string>& keys) = 0;
  // Returns when all keys exist.
  virtual void wait(const std::vector<std::string>& keys, Timeout timeout) = 0;
  void wait(const std::vector<std::string>& keys) { wait(keys, timeout()); }

  // Asks the store to set `key`, to an empty value, when this process is no longer connected, however the process
  // ended. A store that does not notice lost connections (FileStore, PyTorch's server) never sets the key.
  virtual void set_when_gone(const std::string& /*key*/) {}
  // This host's address on the way to the store, in digits; empty where there is no such way.
  virtual std::string local_address() const { return ""; }
};

// A part of `store` where every key is `prefix`/key, so that several users of one store do not meet.
std::shared_ptr<Store> prefix_store(std::string prefix, std::shared_ptr<Store> store);

}  // namespace tandem::distributed
