// Spin: the first part of a wait for a peer, in which the thread polls without sleeping.
#pragma once

#include <chrono>

namespace tandem::distributed {

// A spinning thread notices a peer's answer within microseconds. Waking a sleeping thread takes longer.
//   for (Spin spin(call.may_spin); spin.goes_on();) if (is_done()) return;
class Spin {
 public:
  explicit Spin(bool may_spin);
  // Yields this core to other threads. Returns false when it is time to sleep: after 2 ms, or if other work needs the
  // core.
  bool goes_on();

 private:
  std::chrono::steady_clock::time_point until_;
  bool is_first_ = true;
};

}  // namespace tandem::distributed
