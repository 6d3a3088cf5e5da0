// Dataset: samples by number, handed out a batch at a time.
#pragma once

#include <tandem/core/array.h>

#include <cstdint>
#include <span>

namespace tandem::data {

// Supports: for (auto& [images, labels] : loader) ...
struct Batch {
  Array images;  // (N, C, H, W)
  Array labels;  // (N) for classification
};

// get() may be called from several threads at once. It returns fresh arrays, which the caller owns.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  // The samples numbered `indices`, in that order, repetitions included. Error when one is not in [0, size).
  virtual Batch get(std::span<const std::int64_t> indices) const = 0;
};

}  // namespace tandem::data
