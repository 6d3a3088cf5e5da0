// Memory for the next batch.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/base/temporarily.h>

#include <vector>

namespace tandem::ops {

// While a GatherInto lives, gather_rows() and gather_normalized() (core/ops/gather_rows.h) of this thread write into
// `places` what has the shape, dtype, device and memory order of a place, and return that Array. Each place is used
// once. So a data set in the memory of a GPU makes a batch where a recorded step reads it, and no copy is needed.
class GatherInto {
 public:
  explicit GatherInto(std::vector<Array> places);

 private:
  Temporarily<std::vector<Array>> places_;
};

}  // namespace tandem::ops
