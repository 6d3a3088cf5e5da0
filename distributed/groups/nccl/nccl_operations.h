// Translates each kind of operation to NCCL calls.
#pragma once

#include <tandem/distributed/groups/process_group.h>

#include <nccl.h>

#include <optional>
#include <vector>

namespace tandem::distributed {

// NCCL expects the outputs of an all_gather and the inputs of a reduce_scatter as one array. Returns the same operation
// with these arrays one after the other in memory. If they already are, the arrays stay the same. Otherwise, new memory
// replaces the outputs, and copies that are made in the current stream replace the inputs.
Operation adjacent(Operation contiguous);

// NCCL's minimum and maximum of floats are fmin and fmax, which ignore NaN. For this reason, a second operation sums an
// array of marks over the ranks. A mark is NaN if the number is NaN, and 0 otherwise. The sum of the marks is NaN
// wherever the result must be NaN.
struct NanMarks {
  Operation sum;
  std::vector<Array> outputs;  // of the minimum or maximum, as its caller passed them

  // Returns nullopt for an operation that does not lose NaN. `contiguous` is the result of adjacent() for `given`.
  static std::optional<NanMarks> of(const Operation& contiguous, const Operation& given);
  // Writes NaN into the outputs wherever the sum of the marks is NaN. The current stream must have waited for both
  // operations.
  void write() const;
};

// Issues an operation that adjacent() returned, and the sum of its marks, in `stream`.
ncclResult_t issue(const Operation& operation, const std::optional<NanMarks>& marks, ncclComm_t communicator,
                   cudaStream_t stream);

}  // namespace tandem::distributed
