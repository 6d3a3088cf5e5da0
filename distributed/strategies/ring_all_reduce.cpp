#include <tandem/core/ops.h>
#include <tandem/distributed/strategies/ring_all_reduce.h>

#include <memory>

namespace tandem::distributed {

void ring_all_reduce(ProcessGroup& group, const Array& array, ReduceOp op) {
  TANDEM_CHECK(op == ReduceOp::sum || op == ReduceOp::mean, "ring_all_reduce computes sum and mean only");
  TANDEM_CHECK(op == ReduceOp::sum || is_floating(array.dtype()), "a mean over ranks needs a floating dtype, got ",
               array.dtype());
  const int size = group.size(), rank = group.rank();
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;

  Array flat = array.contiguous().reshape({array.numel()});
  if (op == ReduceOp::mean) ops::scale_(flat, 1.0 / size);

  // Returns one of `size` chunks of nearly equal length. With fewer elements than ranks, some chunks are empty. Chunks
  // are numbered around the ring: -1 is the last chunk, and `size` is chunk 0.
  const auto chunk = [&](int index) {
    const std::int64_t i = (index + 2 * size) % size, n = flat.numel();
    return flat.slice(0, n * i / size, n * (i + 1) / size);
  };
  const auto exchange = [&](const Array& mine, const Array& theirs) {
    const auto sent = mine.numel() > 0 ? group.send(mine, next, "ring all-reduce") : nullptr;
    if (theirs.numel() > 0) group.receive(theirs, previous, "ring all-reduce")->wait();
    if (sent) sent->wait();
  };

  // Reduce-scatter: chunk i starts at rank i and travels around the ring once. Every rank that it reaches adds its own
  // numbers. At the end, rank r holds the complete sum of chunk r + 1.
  for (int step = 0; step < size - 1; ++step) {
    Array mine = chunk(rank - step - 1);
    const auto theirs = Array::empty(mine.shape(), mine.dtype(), mine.device());
    exchange(chunk(rank - step), theirs);
    ops::add_(mine, theirs);
  }
  // All-gather: the complete chunks travel around the ring once more, and every rank keeps a copy of each.
  for (int step = 0; step < size - 1; ++step) exchange(chunk(rank - step + 1), chunk(rank - step));

  if (!array.is_contiguous()) Array(array).copy_from(flat.reshape(array.shape()));
}

CommunicationHook ring_hook() {
  return [](const GradBucket& bucket, ProcessGroup& group) -> std::shared_ptr<Work> {
    ring_all_reduce(group, bucket.buffer, ReduceOp::mean);
    return nullptr;
  };
}

}  // namespace tandem::distributed
