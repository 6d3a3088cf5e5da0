// CommunicationMeter: measures the time for averaging the gradients, and how much of it the computation hides.
#pragma once

#include <tandem/distributed/ddp/reducer_observer.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::distributed {

// All times are in seconds, averaged over `steps`, as measured on this rank. A slow rank appears as communication time
// on the other ranks.
struct CommunicationReport {
  struct Bucket {
    std::vector<std::string> parameters;
    std::size_t bytes = 0;
    // The duration of this bucket's reduction. It counts from the start of the reduction, or from the end of the
    // previous bucket's reduction if that is later.
    double communication = 0;
    double exposed = 0;  // how long the end of backward waited for this bucket
  };
  std::vector<Bucket> buckets;
  std::int64_t steps = 0;    // synchronised backward passes since the buckets were rebuilt
  double compute = 0;        // from the start of forward to the last gradient
  double communication = 0;  // of all buckets
  double exposed = 0;
  double hidden() const { return communication > exposed ? communication - exposed : 0; }

  std::string to_string() const;  // for users: one line for all buckets, and one line for each
};

// Measures every backward pass:
//
//   const auto meter = std::make_shared<CommunicationMeter>();
//   ddp.observe(meter);
//   ...
//   std::cout << meter->report().to_string() << '\n';
//
// A Work does not report when it ended. The meter therefore polls the oldest running Works whenever a gradient becomes
// final. A measured end is late by at most the time between two gradients.
class CommunicationMeter final : public ReducerObserver {
 public:
  // Returns the communication time since the buckets were built, and how much of it was hidden, as measured on this
  // rank.
  CommunicationReport report() const;

  void buckets_made() override;
  void forward_begun() override;  // only the first forward since the last backward pass counts
  void backward_begun() override;
  void reduction_begun(const GradBucket& bucket) override;
  void reduction_started(std::size_t bucket, const std::shared_ptr<Work>& work) override;
  void gradient_ready() override;
  void gradients_complete() override { computed_ = Clock::now(); }
  void reduction_waited(std::size_t bucket) override;
  void backward_ended() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Pass {
    Clock::time_point started, ended, waited;
    std::shared_ptr<Work> work;  // reset after the wait for it
    bool blocked = false;        // whether starting the reduction blocked the backward pass
  };
  CommunicationReport sums_;
  std::vector<Pass> passes_;  // by bucket, in the current pass
  std::size_t ended_ = 0;     // the number of buckets that have ended
  Clock::time_point forward_, computed_;
  bool in_step_ = false;
};

}  // namespace tandem::distributed
