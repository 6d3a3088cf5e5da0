// CommunicationMeter: what averaging the gradients took, and how much of it the computation hid.
#pragma once

#include <tandem/distributed/ddp/reducer_observer.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::distributed {

// Seconds are means over `steps`, as this rank saw them; a slow rank shows as communication on the others.
struct CommunicationReport {
  struct Bucket {
    std::vector<std::string> parameters;
    std::size_t bytes = 0;
    // The duration of this bucket's reduction. It begins when the reduction starts or when that of the previous bucket
    // has ended, whichever is later.
    double communication = 0;
    double exposed = 0;  // how long the end of backward waited for this bucket
  };
  std::vector<Bucket> buckets;
  std::int64_t steps = 0;    // synchronised backward passes, without those before the buckets were rebuilt
  double compute = 0;        // from the start of forward to the last gradient
  double communication = 0;  // of all buckets
  double exposed = 0;
  double hidden() const { return communication > exposed ? communication - exposed : 0; }

  std::string to_string() const;  // for people: a line for all, a line for each bucket
};

// Takes the times of one backward pass after the other:
//
//   const auto meter = std::make_shared<CommunicationMeter>();
//   ddp.observe(meter);
//   ...
//   std::cout << meter->report().to_string() << '\n';
//
// A Work does not say when it ended. The meter therefore asks the oldest running Works whenever a gradient becomes
// final; the noted end is late by at most the time between two gradients.
class CommunicationMeter final : public ReducerObserver {
 public:
  // The time of communication since the buckets were built, and how much of it was hidden, as this rank sees it.
  CommunicationReport report() const;

  void buckets_made() override;
  void forward_begun() override;  // only the first since the last pass counts
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
    std::shared_ptr<Work> work;  // until the wait for it is over
    bool blocked = false;        // the backward pass has waited at its start
  };
  CommunicationReport sums_;
  std::vector<Pass> passes_;  // by bucket, of the pass that runs
  std::size_t ended_ = 0;     // the number of buckets that have ended
  Clock::time_point forward_, computed_;
  bool in_step_ = false;
};

}  // namespace tandem::distributed
