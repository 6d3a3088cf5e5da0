#include <tandem/core/array/memory_order.h>
#include <tandem/optim/arena.h>

namespace tandem::optim {

std::vector<Array> arena_like(std::span<const Array> like) {
  constexpr std::size_t alignment = 64;
  const auto padded = [](const Array& a) { return (a.bytes() + alignment - 1) / alignment * alignment; };
  std::size_t total = 0;
  const Device device = like.empty() ? Device{} : like[0].device();
  for (const Array& a : like) {
    TANDEM_CHECK(a.device() == device, "an arena lies on one device, got arrays on ", device, " and ", a.device());
    total += padded(a);
  }
  const auto block = std::make_shared<Storage>(total, device);
  std::vector<Array> arrays;
  std::size_t offset = 0;
  for (const Array& a : like) {
    arrays.push_back(MemoryOrder(a).over(storage_slice(block, offset, padded(a)), a.shape(), a.dtype()));
    offset += padded(a);
  }
  return arrays;
}

}  // namespace tandem::optim
