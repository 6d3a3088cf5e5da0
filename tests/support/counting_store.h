// CountingStore: a store that counts the calls to another store.
#pragma once

#include <tandem/distributed/store/store.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tandem::testing {

// Several stores may add to the same number of calls.
class CountingStore final : public distributed::Store {
 public:
  CountingStore(std::shared_ptr<distributed::Store> store, std::atomic<int>& calls)
      : store_(std::move(store)), calls_(calls) {}
  Timeout timeout() const override { return store_->timeout(); }
  void set(const std::string& key, const std::string& value) override { counted().set(key, value); }
  std::string get(const std::string& key) override { return counted().get(key); }
  std::int64_t add(const std::string& key, std::int64_t delta) override { return counted().add(key, delta); }
  void append(const std::string& key, const std::string& value) override { counted().append(key, value); }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    return counted().compare_set(key, expected, desired);
  }
  bool delete_key(const std::string& key) override { return counted().delete_key(key); }
  bool check(const std::vector<std::string>& keys) override { return counted().check(keys); }
  using Store::wait;
  void wait(const std::vector<std::string>& keys, Timeout timeout) override { counted().wait(keys, timeout); }
  void set_when_gone(const std::string& key) override { counted().set_when_gone(key); }
  std::string local_address() const override { return store_->local_address(); }

 private:
  distributed::Store& counted() {
    ++calls_;
    return *store_;
  }

  std::shared_ptr<distributed::Store> store_;
  std::atomic<int>& calls_;
};

}  // namespace tandem::testing
