#include <tandem/core/array/memory_order.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/ddp/same_weights.h>

#include <string>

namespace tandem::distributed {
namespace {

// The sum of the bits as integers, (1) i64, on the device of `value`.
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

void check_same_weights(const std::vector<NamedTensor>& parameters, ProcessGroup& group) {
  if (group.size() == 1 || parameters.empty()) return;
  std::vector<Array> sums;
  for (const auto& [name, tensor] : parameters) sums.push_back(sum_of_bits(tensor.value()));
  const Array mine = ops::cat(sums).to(Device{});
  const std::int64_t n = mine.numel();
  // ~x falls as x rises, so one maximum gives the largest and the smallest.
  std::vector<std::int64_t> both = mine.to_vector<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i) both.push_back(~both[static_cast<std::size_t>(i)]);
  const Array extremes = Array::from(both, {2 * n});
  group.all_reduce(extremes, ReduceOp::max, "comparison of the weights")->wait();
  const auto* extreme = extremes.data<std::int64_t>();
  std::int64_t first = 0;
  while (first < n && extreme[first] == ~extreme[n + first]) ++first;
  if (first == n) return;
  std::vector<Array> of_ranks;
  for (int r = 0; r < group.size(); ++r) of_ranks.push_back(Array::empty({1}, DType::i64));
  group.all_gather(of_ranks, mine.slice(0, first, first + 1), "the weights that differ")->wait();
  std::string others;
  for (int r = 1; r < group.size(); ++r)
    if (of_ranks[r].item<std::int64_t>() != of_ranks[0].item<std::int64_t>())
      others += (others.empty() ? "" : ", ") + std::to_string(r);
  detail::fail(
      "the ranks no longer hold the same weights: the first parameter that differs is ",
      parameters[static_cast<std::size_t>(first)].name, ", on rank ", others,
      " it is not that of rank 0. What changes weights must happen on all ranks alike: loading them, setting a "
      "learning rate, another number of optimizer steps");
}

}  // namespace tandem::distributed
