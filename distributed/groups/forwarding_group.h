// ForwardingGroup: a process group that forwards every call to another group. Derived classes override some calls.
#pragma once

#include <tandem/distributed/groups/process_group.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

namespace tandem::distributed {

class ForwardingGroup : public ProcessGroup {
 public:
  explicit ForwardingGroup(std::shared_ptr<ProcessGroup> group) : group_(std::move(group)) {}

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  const char* backend() const override { return group_->backend(); }
  std::chrono::milliseconds timeout() const override { return group_->timeout(); }
  std::shared_ptr<Store> store() const override { return group_->store(); }
  std::shared_ptr<ProcessGroup> subgroup(const std::vector<int>& ranks) override { return group_->subgroup(ranks); }
  Array allocate(const Shape& shape, DType dtype, Device device = {}) override {
    return group_->allocate(shape, dtype, device);
  }
  std::shared_ptr<Work> start(Operation operation) override { return group_->start(std::move(operation)); }

 protected:
  const std::shared_ptr<ProcessGroup> group_;
};

}  // namespace tandem::distributed
