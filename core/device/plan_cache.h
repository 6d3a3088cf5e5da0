// PlanCache: keeps what a library prepared for each kind of call, so that the library prepares it only once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace tandem {

// Everything that a plan depends on. Unused entries are 0. A batched matrix product of cuBLASLt (core/cuda/cublas.cpp)
// uses the most, 24: three entries, and seven more for each of three arrays (alignment, three sizes, three strides).
using PlanKey = std::array<std::int64_t, 24>;

// Only one thread may use a cache at a time.
template <class Plan>
class PlanCache {
 public:
  // Bounds the memory of the cache when inputs keep coming in new sizes: a full cache is emptied. A network has a few
  // plans for each layer, far fewer than 512.
  static constexpr std::size_t most = 512;

  // The plan for `key`. On the first request for a key, `build` makes the plan and returns it as a unique_ptr. The
  // reference is valid until the next call.
  template <class Build>
  Plan& get(const PlanKey& key, Build build) {
    if (const auto found = plans_.find(key); found != plans_.end()) return *found->second;
    std::unique_ptr<Plan> plan = build();
    if (plans_.size() >= most) plans_.clear();
    return *plans_.emplace(key, std::move(plan)).first->second;
  }

 private:
  struct Hash {
    std::size_t operator()(const PlanKey& key) const {
      std::uint64_t h = 14695981039346656037ull;  // FNV-1a
      for (const auto v : key) h = (h ^ static_cast<std::uint64_t>(v)) * 1099511628211ull;
      return h;
    }
  };
  std::unordered_map<PlanKey, std::unique_ptr<Plan>, Hash> plans_;
};

}  // namespace tandem
