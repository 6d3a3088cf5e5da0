// ChangeWatch and InterruptibleStore: end the waits of a process when its generation ends.
#pragma once

#include <tandem/core/base/temporarily.h>
#include <tandem/distributed/groups/operation_observer.h>
#include <tandem/distributed/store/store.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tandem::distributed {

// Observes a process group for one thing: its own thread waits until the store has `key`, and then calls `changed`.
class ChangeWatch final : public OperationObserver, NoCopy {
 public:
  // `store` is a connection that no other thread uses meanwhile, because this thread always waits in it.
  ChangeWatch(std::shared_ptr<Store> store, std::string key, std::function<void()> changed);
  ~ChangeWatch() override;

 private:
  void run();

  const std::shared_ptr<Store> store_;
  const std::string key_;
  const std::function<void()> changed_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

// Forwards every call to `store`. As soon as `watched` has the key `end`, calls that look for keys that are not there,
// and calls that wait for them, throw a PeerError.
class InterruptibleStore final : public Store {
 public:
  InterruptibleStore(std::shared_ptr<Store> store, std::shared_ptr<Store> watched, std::string end)
      : store_(std::move(store)), watched_(std::move(watched)), end_(std::move(end)) {}

  Timeout timeout() const override { return store_->timeout(); }
  void set(const std::string& key, const std::string& value) override { store_->set(key, value); }
  std::string get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t delta) override { return store_->add(key, delta); }
  void append(const std::string& key, const std::string& value) override { store_->append(key, value); }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    return store_->compare_set(key, expected, desired);
  }
  bool delete_key(const std::string& key) override { return store_->delete_key(key); }
  bool check(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, Timeout timeout) override;
  void set_when_gone(const std::string& key) override { store_->set_when_gone(key); }
  std::string local_address() const override { return store_->local_address(); }

 private:
  const std::shared_ptr<Store> store_;
  const std::shared_ptr<Store> watched_;
  const std::string end_;
};

}  // namespace tandem::distributed
