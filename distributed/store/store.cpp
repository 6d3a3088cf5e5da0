#include <tandem/distributed/store/store.h>

#include <utility>

namespace tandem::distributed {
namespace {

class PrefixStore final : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store)
      : prefix_(std::move(prefix) + "/"), store_(std::move(store)) {}

  Timeout timeout() const override { return store_->timeout(); }
  void set(const std::string& key, const std::string& value) override { store_->set(prefix_ + key, value); }
  std::string get(const std::string& key) override { return store_->get(prefix_ + key); }
  std::int64_t add(const std::string& key, std::int64_t delta) override { return store_->add(prefix_ + key, delta); }
  void append(const std::string& key, const std::string& value) override { store_->append(prefix_ + key, value); }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    return store_->compare_set(prefix_ + key, expected, desired);
  }
  bool delete_key(const std::string& key) override { return store_->delete_key(prefix_ + key); }
  bool check(const std::vector<std::string>& keys) override { return store_->check(prefixed(keys)); }
  void wait(const std::vector<std::string>& keys, Timeout timeout) override { store_->wait(prefixed(keys), timeout); }
  void set_when_gone(const std::string& key) override { store_->set_when_gone(prefix_ + key); }
  std::string local_address() const override { return store_->local_address(); }

 private:
  std::vector<std::string> prefixed(std::vector<std::string> keys) const {
    for (auto& key : keys) key.insert(0, prefix_);
    return keys;
  }

  std::string prefix_;
  std::shared_ptr<Store> store_;
};

}  // namespace

std::shared_ptr<Store> prefix_store(std::string prefix, std::shared_ptr<Store> store) {
  return std::make_shared<PrefixStore>(std::move(prefix), std::move(store));
}

}  // namespace tandem::distributed
