// Communication hooks: how the gradients of one bucket become their mean over the ranks.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/distributed/groups/process_group.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace tandem::distributed {

// The gradients that travel together. The arrays are views: what is written to them is what the optimizer sees.
struct GradBucket {
  std::size_t index;  // buckets are reduced in this order, on all ranks
  bool is_last;
  Array buffer;                         // (elements), all gradients of the bucket, zeros between
  std::vector<Array> gradients;         // each a part of buffer
  std::vector<NamedTensor> parameters;  // by the same index: whose gradients these are
};

// A hook starts the communication of a bucket whose gradients are all final, and returns while the communication goes
// on. When the returned Work's wait() returns, the buffer must hold the mean over the ranks, with the same bits on all
// ranks. A null Work means that there is nothing to wait for. The hook runs on the thread of the backward pass, which
// goes on once the hook has returned; computations on the received numbers belong into finish_with. All ranks call the
// hook for the same buckets in the same order, so it may use any collective. An exception from the hook leaves
// backward(), with the rank and the bucket in its text.
using CommunicationHook = std::function<std::shared_ptr<Work>(const GradBucket& bucket, ProcessGroup& group)>;

// Returns a Work that waits for `work` and then runs `finish`: once, in the first wait(), on the thread that waits.
std::shared_ptr<Work> finish_with(std::shared_ptr<Work> work, std::function<void()> finish);

// The hook that is used when none is set: one all-reduce of the bucket.
CommunicationHook all_reduce_hook();

// Sends 16 bits for each number, half of f32: the buffer is rounded to `dtype` (bf16 or f16), averaged and
// converted back. bf16 keeps the range of f32 with 8 bits of precision; f16 has 11 bits and overflows above
// 65504.
CommunicationHook compress_hook(DType dtype);

}  // namespace tandem::distributed
