// Arrays that are adjacent in one block.
#include <tandem/core/array/packing.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

std::uintptr_t address(const Array& a) { return reinterpret_cast<std::uintptr_t>(a.raw()); }

TEST(Packing, PutsEveryArrayAtAMultipleOf64Bytes) {
  EXPECT_EQ(packed_bytes(0), 0u);
  EXPECT_EQ(packed_bytes(64), 64u);
  EXPECT_EQ(packed_bytes(65), 128u);
  const auto block = std::make_shared<Storage>(256, Device{});
  Packing packing(block);
  const Array a = packing.next({16}, DType::f32), b = packing.next({3}, DType::f32), c = packing.next({17}, DType::f32);
  const auto begin = reinterpret_cast<std::uintptr_t>(block->data());
  EXPECT_EQ(address(a) - begin, 0u);
  EXPECT_EQ(address(b) - begin, 64u);
  EXPECT_EQ(address(c) - begin, 128u);
  EXPECT_ERROR(packing.next({1}, DType::u8), "256");
}

TEST(Packing, LeavesNoGapsWhereNoneAreWanted) {
  const Array memory = ops::zeros({7});
  Packing packing(memory.storage(), 1);
  Array a = packing.next({3}, DType::f32), b = packing.next({2, 2}, DType::f32);
  a.fill(1);
  b.fill(2);
  EXPECT_EQ(memory.to_vector<float>(), (std::vector<float>{1, 1, 1, 2, 2, 2, 2}));
  EXPECT_EQ(b.storage()->version(), 1u);
}

TEST(Packing, TakesOverTheOrderOfMemory) {
  const Array images = testing::counting({2, 3, 4, 5}).channels_last();
  Packing packing(std::make_shared<Storage>(packed_bytes(images.bytes()), Device{}));
  EXPECT_EQ(packing.next_like(images).strides(), images.strides());
}

}  // namespace
}  // namespace tandem
