// The allocator of a GPU: pools for recorded steps. split_blocks_test.cpp tests its large blocks.
#include "core/device/counting_source.h"

#include <tandem/core/device/gpu_allocator.h>

#include <gtest/gtest.h>

#include <thread>

namespace tandem {
namespace {

// A recording may use blocks that earlier steps left in the cache. Other work may use them only after the pool is
// dropped.
TEST(GpuAllocator, APoolTakesCachedBlocksFirst) {
  testing::CountingSource source;
  GpuAllocator allocator(source, 512);
  void* const before = allocator.allocate(5000);
  allocator.deallocate(before, 5000);
  const auto pool = allocator.open_pool();
  EXPECT_EQ(allocator.allocate(5000), before);
  EXPECT_EQ(allocator.stats().bytes_cached, 0u);
  void* const more = allocator.allocate(5000);
  allocator.deallocate(before, 5000);
  allocator.close_pool();
  EXPECT_EQ(source.taken.size(), 2u);
  void* const other = allocator.allocate(5000);
  EXPECT_NE(other, before);  // `before` is free, but belongs to the pool
  EXPECT_EQ(source.taken.size(), 3u);
  allocator.deallocate(more, 5000);
  allocator.drop_pool(pool);
  for (int i = 0; i < 2; ++i) allocator.allocate(5000);
  EXPECT_EQ(source.taken.size(), 3u);
}

// A recording may reuse a block that it has freed. If another thread got the block in the meantime, each replay would
// overwrite its numbers.
TEST(GpuAllocator, OtherThreadsGetNothingOfAnOpenPool) {
  for (const std::size_t bytes : {std::size_t{5000}, std::size_t{5} << 20}) {
    testing::CountingSource source;
    GpuAllocator allocator(source, 512);
    const auto pool = allocator.open_pool();
    void* const recorded = allocator.allocate(bytes);
    allocator.deallocate(recorded, bytes);
    void* elsewhere = nullptr;
    std::thread([&] { elsewhere = allocator.allocate(bytes); }).join();
    EXPECT_NE(elsewhere, recorded) << bytes;
    EXPECT_EQ(allocator.allocate(bytes), recorded) << bytes;
    allocator.deallocate(elsewhere, bytes);
    allocator.close_pool();
    EXPECT_EQ(allocator.allocate(bytes), elsewhere) << bytes;  // `elsewhere` never became part of the pool
    allocator.drop_pool(pool);
  }
}

}  // namespace
}  // namespace tandem
