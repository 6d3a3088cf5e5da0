// NoCopy and Temporarily: building blocks for objects that live as long as a scope.
#pragma once

#include <utility>

namespace tandem {

// The base class of objects that can be neither copied nor moved.
class NoCopy {
 public:
  NoCopy() = default;
  NoCopy(const NoCopy&) = delete;
  NoCopy& operator=(const NoCopy&) = delete;
};

// While a Temporarily lives, `variable` has another value.
template <class T>
class Temporarily : NoCopy {
 public:
  Temporarily(T& variable, T value) : variable_(variable), before_(std::exchange(variable, std::move(value))) {}
  ~Temporarily() { variable_ = std::move(before_); }

 private:
  T& variable_;
  T before_;
};

}  // namespace tandem
