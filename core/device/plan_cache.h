// PlanCache: keeps what a library prepared for each kind of call, so that the library prepares it only once.
#pragma once

#include <tandem/core/base/shape.h>
#include <tandem/core/formulas/window.h>

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <type_traits>
#include <unordered_map>
#include <utility>

namespace tandem {

// The key of a plan: shapes, strides, dtypes and options of a library's call, as numbers in an order that the caller
// chooses. Calls whose numbers are all equal share a plan.
class CallKey {
 public:
  template <class... Parts>
  CallKey(const Parts&... parts) {
    (add(parts), ...);
  }
  void add(std::int64_t number) { numbers_.at(size_++) = number; }
  void add(const Dims& dims) {
    for (const std::int64_t d : dims) add(d);
  }
  void add(const Window& window) {
    for (const Extent e : {window.kernel, window.stride, window.padding, window.dilation}) add(e.h), add(e.w);
    add(window.groups);
  }
  template <class E>
  requires std::is_enum_v<E>
  void add(E value) { add(static_cast<std::int64_t>(value)); }

  bool operator==(const CallKey&) const = default;
  std::size_t hash() const {
    std::uint64_t h = 14695981039346656037ull;  // FNV-1a
    for (std::size_t i = 0; i < size_; ++i) h = (h ^ static_cast<std::uint64_t>(numbers_[i])) * 1099511628211ull;
    return h;
  }

 private:
  std::array<std::int64_t, 32> numbers_{};  // the key of a convolution or of a batched product has 27
  std::size_t size_ = 0;
};

// `most` bounds the memory of the cache when inputs keep coming in new sizes: a full cache forgets the plan that was
// not used for the longest time. Only one thread may use a cache at a time.
template <class Plan, std::size_t most>
class PlanCache {
 public:
  // The plan for `key`. On the first request for a key, `build` makes the plan and returns it as a unique_ptr. The
  // reference is valid until the next call.
  template <class Build>
  Plan& get(const CallKey& key, Build build) {
    if (const auto found = places_.find(key); found != places_.end()) {
      plans_.splice(plans_.begin(), plans_, found->second);
      return *found->second->second;
    }
    std::unique_ptr<Plan> plan = build();
    if (plans_.size() == most) {
      places_.erase(plans_.back().first);
      plans_.pop_back();
    }
    plans_.emplace_front(key, std::move(plan));
    places_.emplace(key, plans_.begin());
    return *plans_.front().second;
  }

 private:
  struct Hash {
    std::size_t operator()(const CallKey& key) const { return key.hash(); }
  };
  using Plans = std::list<std::pair<CallKey, std::unique_ptr<Plan>>>;  // the last one used comes first
  Plans plans_;
  std::unordered_map<CallKey, typename Plans::iterator, Hash> places_;
};

}  // namespace tandem
