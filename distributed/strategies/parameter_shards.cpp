#include <tandem/core/array/memory_order.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/ddp/compress_hook.h>
#include <tandem/distributed/strategies/parameter_shards.h>

namespace tandem::distributed {
namespace {

// Returns the length of the longest shard of the arrays together. Collectives need equally long arrays on all ranks, so
// the last elements of a message may be unused.
std::int64_t message_length(const std::vector<Array>& arrays, int ranks) {
  std::int64_t length = 0;
  for (const Array& array : arrays) length += (array.numel() + ranks - 1) / ranks;
  return length;
}

// Returns views of `message`, one after the other, with the lengths of `shards`.
std::vector<Array> parts_of(const Array& message, const std::vector<Array>& shards) {
  std::vector<Array> parts;
  std::int64_t at = 0;
  for (const Array& one : shards) {
    parts.push_back(message.slice(0, at, at + one.numel()));
    at += one.numel();
  }
  return parts;
}

void copy(const std::vector<Array>& from, std::vector<Array> to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i].copy_from(from[i]);
}

// Creates one message for each rank. They are adjacent in memory, as NCCL needs them.
std::vector<Array> messages_for(const std::vector<Array>& arrays, int ranks) {
  const Array all = ops::zeros({ranks, message_length(arrays, ranks)}, arrays.at(0).dtype(), arrays.at(0).device());
  std::vector<Array> messages;
  for (int r = 0; r < ranks; ++r) messages.push_back(all.select(0, r));
  return messages;
}

}  // namespace

Array shard(const Array& array, int rank, int ranks) {
  TANDEM_CHECK(MemoryOrder(array).fits(array), "an array of shape ", array.shape(), " with strides ", array.strides(),
               " has gaps in memory, so its elements can't be divided among the ranks: use contiguous()");
  const std::int64_t begin = begin_of_shard(array.numel(), rank, ranks);
  const std::int64_t end = begin_of_shard(array.numel(), rank + 1, ranks);
  return {array.storage(), {end - begin}, {1}, array.offset() + begin, array.dtype()};
}

std::vector<Array> shards(const std::vector<Array>& arrays, int rank, int ranks) {
  std::vector<Array> found;
  for (const Array& array : arrays) found.push_back(shard(array, rank, ranks));
  return found;
}

std::shared_ptr<Work> reduce_scatter_shards(const std::vector<Array>& arrays, const std::vector<Array>& results,
                                            bool adds, ProcessGroup& group, const std::string& name,
                                            std::deque<std::shared_ptr<Work>>& in_flight) {
  constexpr std::size_t most_in_flight = 2;  // one is sent while the next bucket fills up
  if (in_flight.size() == most_in_flight) {
    in_flight.front()->wait();
    in_flight.pop_front();
  }
  auto messages = messages_for(arrays, group.size());
  for (int r = 0; r < group.size(); ++r) {
    const auto theirs = shards(arrays, r, group.size());
    copy(theirs, parts_of(messages[r], theirs));
  }
  const Array mine = ops::empty_like(messages[0]);
  auto work = group.reduce_scatter(mine, std::move(messages), ReduceOp::mean, name);
  in_flight.push_back(finish_with(std::move(work), [mine, results = results, adds]() mutable {
    const auto means = parts_of(mine, results);
    if (!adds) return copy(means, results);
    for (std::size_t i = 0; i < results.size(); ++i) ops::add_(results[i], means[i]);
  }));
  return in_flight.back();
}

void all_gather_shards(const std::vector<Array>& arrays, ProcessGroup& group, const std::string& name) {
  if (group.size() == 1) return;
  const auto messages = messages_for(arrays, group.size());
  const Array mine = ops::zeros_like(messages[0]);
  const auto own = shards(arrays, group.rank(), group.size());
  copy(own, parts_of(mine, own));
  group.all_gather(messages, mine, name)->wait();
  for (int r = 0; r < group.size(); ++r) {
    const auto theirs = shards(arrays, r, group.size());
    if (r != group.rank()) copy(parts_of(messages[r], theirs), theirs);
  }
}

Array gather_shards(const Array& mine, const Array& like, ProcessGroup& group, const std::string& name) {
  const int ranks = group.size();
  auto messages = group.rank() == 0 ? messages_for({like}, ranks) : std::vector<Array>();
  const Array message = ops::zeros({message_length({like}, ranks)}, mine.dtype(), mine.device());
  message.slice(0, 0, mine.numel()).copy_from(mine);
  group.gather(messages, message, 0, name)->wait();
  if (group.rank() != 0) return {};
  const Array whole = MemoryOrder(like).empty(like.shape(), mine.dtype(), Device{});
  for (int r = 0; r < ranks; ++r) {
    const auto theirs = shards({whole}, r, ranks);
    copy(parts_of(messages[r], theirs), theirs);
  }
  return whole;
}

}  // namespace tandem::distributed
