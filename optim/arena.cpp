#include <tandem/optim/arena.h>

namespace tandem::optim {

std::vector<Array> arena_like(std::span<const Array> like) {
  constexpr std::size_t alignment = 64;
  const auto padded = [](const Array& a) { return (a.bytes() + alignment - 1) / alignment * alignment; };
  std::size_t total = 0;
  for (const Array& a : like) total += padded(a);
  const auto block = std::make_shared<Storage>(total, like.empty() ? Device{} : like[0].device());
  std::vector<Array> arrays;
  std::size_t offset = 0;
  for (const Array& a : like) {
    arrays.emplace_back(storage_slice(block, offset, padded(a)), a.shape(), contiguous_strides(a.shape()), 0,
                        a.dtype());
    offset += padded(a);
  }
  return arrays;
}

}  // namespace tandem::optim
