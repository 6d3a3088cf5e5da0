// The translation of each kind of operation to NCCL.
#pragma once

#include <tandem/distributed/groups/process_group.h>

#include <nccl.h>

#include <optional>
#include <vector>

namespace tandem::distributed {

// NCCL takes the ranks' parts of an all_gather's outputs and of a reduce_scatter's inputs as one array. The same
// operation on arrays of which these lie one behind the other: the given ones where they do, else room for the outputs
// and copies of the inputs, which are made in the current stream.
Operation adjacent(Operation contiguous);

// NCCL's minimum and maximum of floats are fmin and fmax, which leave out a NaN. Such an operation is accompanied by an
// array of marks: NaN where a number is NaN, else 0. The sum of the marks over the ranks is NaN wherever the result
// must be NaN.
struct NanMarks {
  Operation sum;
  std::vector<Array> outputs;  // those of the operation, as its caller gave them

  // None for an operation that loses no NaN. `contiguous` is what adjacent() has made of `given`.
  static std::optional<NanMarks> of(const Operation& contiguous, const Operation& given);
  // To be called in a stream that has waited for both operations.
  void write() const;
};

// Issues what adjacent() has made, and the sum of its marks, in `stream`.
ncclResult_t issue(const Operation& operation, const std::optional<NanMarks>& marks, ncclComm_t communicator,
                   cudaStream_t stream);

}  // namespace tandem::distributed
