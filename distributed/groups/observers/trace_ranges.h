// TraceRanges: adds a group's operations on host memory to the profile.
#pragma once

#include <tandem/core/base/scope.h>
#include <tandem/distributed/groups/observed_operation.h>

#include <optional>

namespace tandem::distributed {

// Each collective is a range of the thread that runs it, with its name and bytes. A message has no range here, because
// the thread that waits for it adds one. The class is not for groups on GPUs, whose operations start and end on
// different threads. core/cuda/gpu_trace.cpp traces GPUs.
class TraceRanges : public OperationObserver {
 public:
  void running(const ObservedOperation& operation, std::uint64_t, Time) noexcept override {
    if (operation.kind == Operation::Kind::send || operation.kind == Operation::Kind::receive) return;
    range_.emplace(operation.kind_name);
    range_->note("name", operation.name);
    range_->note("bytes", static_cast<std::int64_t>(operation.bytes));
  }
  void ended(const ObservedOperation&, std::uint64_t, Time, bool) noexcept override { range_.reset(); }

 private:
  struct Range final : Scope {
    using Scope::Scope;
  };
  static inline thread_local std::optional<Range> range_;
};

}  // namespace tandem::distributed
