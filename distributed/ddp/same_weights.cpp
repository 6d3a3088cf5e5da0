#include <tandem/core/array/memory_order.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/ddp/same_weights.h>
#include <tandem/distributed/groups/members.h>

#include <string>

namespace tandem::distributed {
namespace {

// Returns the sum of the bits as integers, (1) i64, on the device of `value`.
Array sum_of_bits(const Array& value) {
  const Array dense = value.is_contiguous() ? value : MemoryOrder(value).apply(value);
  const auto width = static_cast<std::int64_t>(size_of(dense.dtype()));
  const bool in_words = dense.bytes() % 4 == 0 && dense.offset() * width % 4 == 0;
  const DType dtype = in_words ? DType::i32 : DType::u8;
  const auto unit = static_cast<std::int64_t>(size_of(dtype));
  const Array bits(dense.storage(), {static_cast<std::int64_t>(dense.bytes()) / unit}, {1},
                   dense.offset() * width / unit, dtype);
  return ops::reduce(Reduction::sum, bits).reshape({1});
}

}  // namespace

void check_same_weights(const std::vector<NamedTensor>& parameters, const data::Epoch& epoch, ProcessGroup& group) {
  if (group.size() == 1 || parameters.empty()) return;
  std::vector<Array> sums;
  for (const auto& [name, tensor] : parameters) sums.push_back(sum_of_bits(tensor.value()));
  std::vector<std::int64_t> mine = ops::cat(sums).to_vector<std::int64_t>();
  mine.insert(mine.end(), {epoch.number, static_cast<std::int64_t>(epoch.seed)});
  const std::size_t n = mine.size();
  // ~x falls as x rises, so one maximum returns both the largest and the smallest number.
  std::vector<std::int64_t> both = mine;
  for (const std::int64_t number : mine) both.push_back(~number);
  const Array extremes = Array::from(both);
  group.all_reduce(extremes, ReduceOp::max, "comparison of the weights")->wait();
  const auto* extreme = extremes.data<std::int64_t>();
  std::size_t first = 0;
  while (first < n && extreme[first] == ~extreme[n + first]) ++first;
  if (first == n) return;
  std::vector<Array> of_ranks;
  for (int r = 0; r < group.size(); ++r) of_ranks.push_back(Array::empty({1}, DType::i64));
  group.all_gather(of_ranks, Array::from(std::vector{mine[first]}), "the weights that differ")->wait();
  std::vector<int> different;
  for (int r = 1; r < group.size(); ++r)
    if (of_ranks[r].item<std::int64_t>() != of_ranks[0].item<std::int64_t>()) different.push_back(r);
  const auto others = rank_list(different), s = std::string(different.size() == 1 ? "s" : "");
  TANDEM_CHECK(first + 1 < n, others, " shuffle", s, " with a different seed than rank 0, so the ranks' shards ",
               "overlap: set the same LoaderOptions::seed on all ranks");
  TANDEM_CHECK(first + 2 < n, others, " use", s, different.size() == 1 ? " its shard" : " their shards",
               " of a different epoch of the Loader than rank 0, which is in ", of_ranks[0].item<std::int64_t>(),
               ": each pass over a Loader is the next epoch, so a rank has started a pass alone. Let all ranks run the "
               "same passes, or set the epoch: loader.epoch(number)");
  detail::fail(
      "the ranks no longer hold the same weights: the first parameter that differs is ", parameters[first].name,
      ", which on ", others,
      " differs from rank 0's. All ranks must change their weights in the same way: load the same weights, set the "
      "same learning rate, take the same number of optimizer steps");
}

}  // namespace tandem::distributed
