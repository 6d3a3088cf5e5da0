// Packing: arrays one after another in one block of memory, so that a single pass, copy or message handles all of them.
#pragma once

#include <tandem/core/array/memory_order.h>

#include <memory>
#include <utility>

namespace tandem {

// Returns the size of an array's part of a block, including the gap after it. Arrays begin at multiples of `alignment`
// bytes: 64 is the size of a cache line and of the widest vector register, and 1 leaves no gaps.
constexpr std::size_t packed_bytes(std::size_t bytes, std::size_t alignment = 64) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// Allocates arrays one after another in a block. The block needs packed_bytes() for each array. If it is too small, an
// Error is thrown. Each array has its own version count and keeps the block alive.
class Packing {
 public:
  explicit Packing(std::shared_ptr<Storage> block, std::size_t alignment = 64)
      : block_(std::move(block)), alignment_(alignment) {}

  // Returns the next array, row-major.
  Array next(const Shape& shape, DType dtype) {
    auto part = take(static_cast<std::size_t>(shape.product()) * size_of(dtype));
    return {std::move(part), shape, contiguous_strides(shape), 0, dtype};
  }
  // Returns the next array, with the shape, dtype and memory order of `like`. It has no gaps, even if `like` has some.
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
