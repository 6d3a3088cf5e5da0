#include <tandem/core/array/packing.h>
#include <tandem/optim/arena.h>

namespace tandem::optim {

std::vector<Array> arena_like(std::span<const Array> like) {
  const Device device = like.empty() ? Device{} : like[0].device();
  std::size_t bytes = 0;
  for (const Array& a : like) {
    TANDEM_CHECK(a.device() == device, "an arena must lie on one device, got arrays on ", device, " and ", a.device());
    bytes += packed_bytes(a.bytes());
  }
  Packing packing(std::make_shared<Storage>(bytes, device));
  std::vector<Array> arrays;
  for (const Array& a : like) arrays.push_back(packing.next_like(a));
  return arrays;
}

}  // namespace tandem::optim
