#include <tandem/distributed/groups/observed_operation.h>

#include <utility>

namespace tandem::distributed {

using Clock = std::chrono::steady_clock;

GroupObservers::GroupObservers(const Observers& observers, const ObservedGroup& group) {
  const std::lock_guard lock(mutex_);
  for (const auto& make : observers) {
    if (auto observer = make(group)) list_.push_back(std::move(observer));
  }
}

void GroupObservers::failed(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  for (const auto& observer : list_) observer->failed(reason);
}

std::string GroupObservers::whereabouts(const std::vector<int>& ranks) const {
  for (const auto& observer : list_) {
    if (auto text = observer->whereabouts(ranks); !text.empty()) return text;
  }
  return "";
}

std::vector<int> GroupObservers::behind(std::uint64_t sequence) const {
  for (const auto& observer : list_) {
    if (auto ranks = observer->behind(sequence); !ranks.empty()) return ranks;
  }
  return {};
}

void GroupObservers::close() {
  // Destroyed without the lock, because an observer's thread may wait for it.
  std::vector<std::unique_ptr<OperationObserver>> ending;
  const std::lock_guard lock(mutex_);
  ending.swap(list_);
}

ObservedOperation::ObservedOperation(GroupObservers& observers, const Operation& operation, std::uint64_t sequence,
                                     std::string what)
    : kind(operation.kind),
      kind_name(operation.kind_name()),
      name(operation.name),
      bytes(operation.bytes()),
      sequence(sequence),
      what(std::move(what)),
      signature(sequence > 0 ? this->what + " (" + operation.signature() + ")" : ""),
      started(Clock::now()),
      observers_(observers) {
  numbers_.reserve(observers_.list_.size());
  for (const auto& observer : observers_.list_) numbers_.push_back(observer->started(*this, operation));
}

ObservedOperation::~ObservedOperation() {
  if (runs_) end(true);
}

void ObservedOperation::set_running() {
  runs_ = true;
  const auto now = Clock::now();
  for (std::size_t i = 0; i < observers_.list_.size(); ++i) observers_.list_[i]->running(*this, numbers_[i], now);
}

void ObservedOperation::end(bool has_failed) {
  runs_ = false;
  const auto now = Clock::now();
  for (std::size_t i = 0; i < observers_.list_.size(); ++i)
    observers_.list_[i]->ended(*this, numbers_[i], now, has_failed);
}

}  // namespace tandem::distributed
