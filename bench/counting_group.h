// CountingGroup: a process group that counts the bytes and the time of another group's operations.
#pragma once

#include <tandem/distributed/groups/forwarding_group.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tandem::bench {

// The traffic of this rank. The bytes of messages are exact. For a collective they are a lower bound for any algorithm:
// for an all_reduce of n bytes over W ranks, 2 (W - 1) / W n bytes in each direction. `seconds` is the time in which
// the calling thread started operations or waited for them, and therefore could not compute.
struct Traffic {
  double sent = 0;
  double received = 0;
  double seconds = 0;
};

// Passes every operation on to the other group. Not thread-safe: the strategies start operations and wait for them on
// the training thread.
class CountingGroup : public distributed::ForwardingGroup {
 public:
  using ForwardingGroup::ForwardingGroup;

  // The traffic since the last call to take().
  Traffic take() { return std::exchange(*traffic_, {}); }

  // Operations of the subgroup count for this group.
  std::shared_ptr<ProcessGroup> subgroup(const std::vector<int>& ranks) override {
    auto part = ForwardingGroup::subgroup(ranks);
    if (!part) return nullptr;
    auto counting = std::make_shared<CountingGroup>(std::move(part));
    counting->traffic_ = traffic_;
    return counting;
  }

  std::shared_ptr<distributed::Work> start(distributed::Operation operation) override {
    count(operation);
    const Stopwatch stopwatch(*traffic_);
    return std::make_shared<CountingWork>(ForwardingGroup::start(std::move(operation)), traffic_);
  }

 private:
  class Stopwatch {
   public:
    explicit Stopwatch(Traffic& traffic) : traffic_(traffic) {}
    ~Stopwatch() { traffic_.seconds += std::chrono::duration<double>(Clock::now() - begin_).count(); }

   private:
    using Clock = std::chrono::steady_clock;
    Traffic& traffic_;
    const Clock::time_point begin_ = Clock::now();
  };

  class CountingWork : public distributed::Work {
   public:
    CountingWork(std::shared_ptr<Work> work, std::shared_ptr<Traffic> traffic)
        : work_(std::move(work)), traffic_(std::move(traffic)) {}
    bool is_done() const override { return work_->is_done(); }
    std::exception_ptr exception() const override { return work_->exception(); }
    void wait() override {
      const Stopwatch stopwatch(*traffic_);
      work_->wait();
    }
    void wait(std::chrono::milliseconds timeout) override {
      const Stopwatch stopwatch(*traffic_);
      work_->wait(timeout);
    }

   private:
    std::shared_ptr<Work> work_;
    std::shared_ptr<Traffic> traffic_;
  };

  void count(const distributed::Operation& o) {
    using Kind = distributed::Operation::Kind;
    const double others = size() - 1;
    const bool is_root = rank() == o.root;
    const double bytes = o.kind == Kind::barrier ? 0.0
                         : o.outputs.empty()     ? static_cast<double>(o.inputs[0].bytes())
                                                 : static_cast<double>(o.outputs[0].bytes());
    const auto add = [&](double sent, double received) {
      traffic_->sent += sent * bytes;
      traffic_->received += received * bytes;
    };
    switch (o.kind) {
      case Kind::all_reduce: return add(2 * others / size(), 2 * others / size());
      case Kind::all_gather:
      case Kind::reduce_scatter:
      case Kind::all_to_all: return add(others, others);
      case Kind::broadcast: return is_root ? add(1, 0) : add(0, 1);
      case Kind::reduce: return is_root ? add(0, 1) : add(1, 0);
      case Kind::gather: return is_root ? add(0, others) : add(1, 0);
      case Kind::scatter: return is_root ? add(others, 0) : add(0, 1);
      case Kind::send: return add(1, 0);
      case Kind::receive: return add(0, 1);
      case Kind::barrier: return;
    }
  }

  std::shared_ptr<Traffic> traffic_ = std::make_shared<Traffic>();
};

}  // namespace tandem::bench
