// SharedCounter: a number in shared memory that one rank raises and others wait for.
#pragma once

#include <atomic>
#include <cstdint>

namespace tandem::distributed {

// Zeroed memory is a counter at 0.
struct alignas(64) SharedCounter {
  std::atomic<std::uint32_t> value{0};
  std::atomic<std::uint32_t> sleepers{0};

  bool reached(std::uint32_t target) const {
    return static_cast<std::int32_t>(value.load(std::memory_order_acquire) - target) >= 0;
  }
  void raise(std::uint32_t to);  // and wakes those who sleep
  // Returns when the value differs from `seen`, or after 20 ms (chosen: the caller looks then whether the peer that it
  // waits for is still there).
  void sleep(std::uint32_t seen);
};

}  // namespace tandem::distributed
