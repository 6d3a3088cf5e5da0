// Finds indices that are out of range, for gather and scatter on the CPU.
#pragma once

#include <tandem/core/array/index_walk.h>

#include <atomic>
#include <cstdint>

namespace tandem::cpu {

inline bool is_inside(std::int64_t index, std::int64_t count) {
  return static_cast<std::uint64_t>(index) < static_cast<std::uint64_t>(count);
}

// Finds the lowest position that any thread added, or -1.
class LowestPosition {
 public:
  void add(std::int64_t position) {
    std::int64_t lowest = lowest_.load(std::memory_order_relaxed);
    while ((lowest < 0 || position < lowest) && !lowest_.compare_exchange_weak(lowest, position)) {
    }
  }
  std::int64_t position() const { return lowest_; }

 private:
  std::atomic<std::int64_t> lowest_ = -1;
};

}  // namespace tandem::cpu
