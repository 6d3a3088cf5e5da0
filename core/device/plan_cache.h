// PlanCache: what a library had to be asked once for each kind of call.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace tandem {

// Everything that a plan depends on. Entries that are not used are 0.
using PlanKey = std::array<std::int64_t, 24>;

// Not for several threads at once.
template <class Plan>
class PlanCache {
 public:
  static constexpr std::size_t most = 512;  // inputs of ever new sizes must not fill the memory

  // The plan for `key`, made by `build`, which returns a unique_ptr, the first time. Valid until the next call.
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
