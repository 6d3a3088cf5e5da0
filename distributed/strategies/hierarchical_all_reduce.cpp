#include <tandem/core/ops.h>
#include <tandem/distributed/strategies/hierarchical_all_reduce.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

namespace tandem::distributed {
namespace {

// One all-reduce. The constructor starts its first step. wait() runs the others.
class Steps : public Work {
 public:
  static constexpr int reduces = 0, exchanges = 1, broadcasts = 2, done = 3;

  Steps(const Hierarchy& hierarchy, Array array, ReduceOp op, std::string name)
      : hierarchy_(hierarchy),
        array_(std::move(array)),
        op_(op == ReduceOp::mean ? ReduceOp::sum : op),
        name_(std::move(name)) {
    if (op == ReduceOp::mean) ops::scale_(array_, 1.0 / hierarchy_.size);
    work_ = hierarchy_.on_host->reduce(array_, 0, op_, name_);
  }

  // Continues until `step` has started. Waits for the steps before it, for each one at most `timeout` if it is given.
  void advance(int step, std::optional<std::chrono::milliseconds> timeout = {}) {
    for (; step_ < step; ++step_) {
      if (work_) timeout ? work_->wait(*timeout) : work_->wait();
      work_ = next(step_ + 1);
    }
  }

  bool is_done() const override { return step_ == done || (step_ == broadcasts && work_->is_done()); }
  void wait() override { advance(done); }
  void wait(std::chrono::milliseconds timeout) override { advance(done, timeout); }
  std::exception_ptr exception() const override { return work_ ? work_->exception() : nullptr; }

 private:
  std::shared_ptr<Work> next(int step) {
    if (step == exchanges && hierarchy_.leaders) return hierarchy_.leaders->all_reduce(array_, op_, name_);
    if (step == broadcasts) return hierarchy_.on_host->broadcast(array_, 0, name_);
    return nullptr;
  }

  const Hierarchy hierarchy_;
  Array array_;
  const ReduceOp op_;
  const std::string name_;
  int step_ = reduces;
  std::shared_ptr<Work> work_;  // of the step; null if this rank has no part in it
};

}  // namespace

Hierarchy make_hierarchy(ProcessGroup& group, const std::string& host) {
  const auto hosts = group.all_gather_strings(host, "hosts of a hierarchical all-reduce");
  Hierarchy result{.size = group.size()};
  std::vector<int> leaders;
  for (int r = 0; r < group.size(); ++r) {
    if (std::find(hosts.begin(), hosts.begin() + r, hosts[r]) != hosts.begin() + r) continue;
    leaders.push_back(r);
    std::vector<int> ranks;
    for (int other = r; other < group.size(); ++other)
      if (hosts[other] == hosts[r]) ranks.push_back(other);
    if (auto on_host = group.subgroup(ranks)) result.on_host = std::move(on_host);
  }
  result.leaders = group.subgroup(leaders);
  return result;
}

void hierarchical_all_reduce(const Hierarchy& hierarchy, const Array& array, ReduceOp op) {
  TANDEM_CHECK(op != ReduceOp::mean || is_floating(array.dtype()), "a mean over ranks needs a floating dtype, got ",
               array.dtype());
  Steps(hierarchy, array, op, "hierarchical all-reduce").wait();
}

CommunicationHook hierarchical_hook(const std::shared_ptr<ProcessGroup>& group, const std::string& host) {
  const auto hierarchy = make_hierarchy(*required(group, "hierarchical_hook"), host);
  const auto buckets = std::make_shared<std::vector<std::shared_ptr<Steps>>>();  // of this backward pass
  return [hierarchy, buckets](const GradBucket& bucket, ProcessGroup&) -> std::shared_ptr<Work> {
    buckets->resize(bucket.index);  // forgets those of the last pass
    const auto steps = std::make_shared<Steps>(hierarchy, bucket.buffer, ReduceOp::mean, bucket.name);
    buckets->push_back(steps);
    // All ranks start the steps of all buckets in this order.
    const int last = static_cast<int>(bucket.index);
    if (last >= 2) (*buckets)[last - 2]->advance(Steps::broadcasts);
    if (last >= 1) (*buckets)[last - 1]->advance(Steps::exchanges);
    return steps;
  };
}

}  // namespace tandem::distributed
