// CommunicationReport: what averaging the gradients took, and how much of it the computation hid.
#pragma once

#include <tandem/distributed/ddp/communication_hooks.h>

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
    // How long the reduction of this bucket took. The time begins when the reduction is started or when that of the
    // previous bucket has ended, whichever is later.
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

// Takes the times of one backward pass after the other. A Work does not say when it ended. The clock therefore asks
// every running Work whenever a gradient becomes final; the noted end is late by at most the time between two
// gradients.
class CommunicationClock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static Time now() { return std::chrono::steady_clock::now(); }

  // Forgets all times; from now on the clock measures these buckets.
  void reset(std::vector<CommunicationReport::Bucket> buckets);
  void begin_forward();  // only the first since the last pass counts
  void begin_backward();
  void started(std::size_t bucket) {
    passes_[bucket].started = now();
    passes_[bucket].blocked = false;
  }
  // Asks the running Works whether they have ended. `work_of(bucket)` may be null: such a bucket counts as ended.
  template <class WorkOf>
  void look(const WorkOf& work_of, std::size_t started) {
    while (ended_ < started && (!work_of(ended_) || work_of(ended_)->is_done())) passes_[ended_++].ended = now();
  }
  // The start of the reduction has returned, and it has ended: the backward pass has waited for it there.
  void blocked(std::size_t bucket);
  void computed() { computed_ = now(); }  // call it when the last gradient is final
  void waited(std::size_t bucket);        // call it when the wait for `bucket` is over; in the order of buckets
  void end_backward();

  CommunicationReport report() const;

 private:
  struct Pass {
    Time started, ended, waited;
    bool blocked = false;
  };
  CommunicationReport sums_;
  std::vector<Pass> passes_;  // by bucket, of the pass that runs
  std::size_t ended_ = 0;
  Time forward_, computed_;
  bool in_step_ = false;
};

}  // namespace tandem::distributed
