// GatherInto: provides memory for the next batch.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/base/temporarily.h>

#include <vector>

namespace tandem::ops {

// While a GatherInto lives, gather_rows() and gather_normalized() (core/ops/gather_rows.h) on this thread write results
// directly into `places`. If a result has the shape, dtype, device and memory order of one of these Arrays, the
// function writes into that Array and returns it. Each place is used once. A data set in GPU memory can thus write a
// batch to the addresses that a recorded step reads, without a copy.
class GatherInto {
 public:
  explicit GatherInto(std::vector<Array> places);

 private:
  Temporarily<std::vector<Array>> places_;
};

}  // namespace tandem::ops
