// Spin: the first part of a wait for a peer, in which the thread watches without sleeping.
#pragma once

#include <chrono>

namespace tandem::distributed {

// A peer that answers within microseconds is noticed at once that way; to wake a sleeping thread takes longer.
//   for (Spin spin(call.may_spin); spin.goes_on();) if (is_done()) return;
class Spin {
 public:
  explicit Spin(bool may_spin);
  // Lets other threads of this core run. False when it is time to sleep: after 2 ms, or when other work needs the core.
  bool goes_on();

 private:
  std::chrono::steady_clock::time_point until_;
  bool is_first_ = true;
};

}  // namespace tandem::distributed
