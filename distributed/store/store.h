// Store: a small shared table of bytes, through which the ranks of a job find each other.
#pragma once

#include <tandem/distributed/system/annexes.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tandem::distributed {

// A rank sets a key, and other ranks read it. A store is for addresses and agreements, not for tensors. A value is a
// byte string, which may be empty. Every call that waits throws an Error that names the keys after timeout(). Any
// thread may call a store. A store serves one call at a time, so a thread that waits may delay other threads.
class Store {
 public:
  using Timeout = std::chrono::milliseconds;
  static constexpr Timeout default_timeout = std::chrono::seconds(300);  // PyTorch's default

  virtual ~Store() = default;
  virtual Timeout timeout() const = 0;

  virtual void set(const std::string& key, const std::string& value) = 0;
  // Waits until a process has set `key`, and returns its value.
  virtual std::string get(const std::string& key) = 0;
  // Adds `delta` to the decimal number in the value of `key`, and returns the sum. A missing key counts as 0.
  virtual std::int64_t add(const std::string& key, std::int64_t delta) = 0;
  virtual void append(const std::string& key, const std::string& value) = 0;
  // Sets `key` to `desired` if its value is `expected`, or if it is missing and `expected` is empty. Returns the value
  // of `key` afterwards. If the key is still missing, returns `expected`.
  virtual std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) = 0;
  virtual bool delete_key(const std::string& key) = 0;  // returns whether the key existed
  virtual bool check(const std::vector<std::string>& keys) = 0;
  // Waits until all keys exist.
  virtual void wait(const std::vector<std::string>& keys, Timeout timeout) = 0;
  void wait(const std::vector<std::string>& keys) { wait(keys, timeout()); }

  // Asks the store to set `key` to an empty value when this process's connection ends, for whatever reason. A store
  // that does not notice lost connections (FileStore, PyTorch's server) never sets the key.
  virtual void set_when_gone(const std::string& /*key*/) {}
  // Returns the numeric address through which this host reaches the store, or an empty string if that is not over a
  // network.
  virtual std::string local_address() const { return ""; }
};

// Returns a store that prefixes every key with "`prefix`/" and forwards the call to `store`. Users of one store with
// different prefixes never use the same key.
std::shared_ptr<Store> prefix_store(std::string prefix, std::shared_ptr<Store> store);

// Opens the store of the run `run_id` at `path`. No process serves such a store. One rank owns it. That rank's result
// removes the store when it is destroyed.
using OpenStoreAtPath = std::function<std::shared_ptr<Store>(const std::string& path, const std::string& run_id,
                                                             Store::Timeout timeout, bool is_owner)>;
// open_job_store() uses the first entry.
inline constinit AnnexList<OpenStoreAtPath> stores_at_paths{add_distributed_annexes};

}  // namespace tandem::distributed
