// Packing: arrays side by side in one block of memory, so that one pass, copy or message takes all of them.
#pragma once

#include <tandem/core/array/memory_order.h>

#include <memory>
#include <utility>

namespace tandem {

// What an array of so many bytes takes of a block, with the gap behind it. Arrays begin at multiples of `alignment`
// bytes: 64 is the size of a cache line and of the widest vector register, 1 leaves no gaps.
constexpr std::size_t packed_bytes(std::size_t bytes, std::size_t alignment = 64) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// Gives out the memory of a block, array after array. The block has packed_bytes() for each of them; an Error when it
// is too small. Each array has a version count of its own, and keeps the block alive.
class Packing {
 public:
  explicit Packing(std::shared_ptr<Storage> block, std::size_t alignment = 64)
      : block_(std::move(block)), alignment_(alignment) {}

  // The next array, row-major.
  Array next(const Shape& shape, DType dtype) {
    auto part = take(static_cast<std::size_t>(shape.product()) * size_of(dtype));
    return {std::move(part), shape, contiguous_strides(shape), 0, dtype};
  }
  // The next array, with the shape, dtype and memory order of `like`. It has no gaps inside even if `like` has.
  Array next_like(const Array& like) { return MemoryOrder(like).over(take(like.bytes()), like.shape(), like.dtype()); }

 private:
  std::shared_ptr<Storage> take(std::size_t bytes) {
    return storage_slice(block_, std::exchange(used_, used_ + packed_bytes(bytes, alignment_)), bytes);
  }

  std::shared_ptr<Storage> block_;
  std::size_t alignment_;
  std::size_t used_ = 0;
};

}  // namespace tandem
