// Dataset: samples by number, handed out a batch at a time.
#pragma once

#include <tandem/core/array/array.h>

#include <cstdint>
#include <span>

namespace tandem::data {

// Supports: for (auto& [images, labels] : loader) ...
struct Batch {
  Array inputs;   // (N, ...): images (N, C, H, W)
  Array targets;  // (N, ...): classes (N)
};

// get() may be called from several threads at once. It returns fresh arrays, which the caller owns.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  // The samples numbered `indices`, in that order, repetitions included. Error when one is not in [0, size).
  virtual Batch get(std::span<const std::int64_t> indices) const = 0;

  // Where batches are made. A data set that lies in a GPU's memory is asked by gather(), not by get(): a Loader sends
  // an epoch's numbers there once, and the host waits for nothing.
  virtual Device device() const { return {}; }
  // The samples numbered `indices` (N) i64, an array on device(), all of them in [0, size).
  virtual Batch gather(const Array& indices) const { return get(indices.to_vector<std::int64_t>()); }
};

}  // namespace tandem::data
