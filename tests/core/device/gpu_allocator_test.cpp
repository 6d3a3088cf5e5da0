// The allocator of a GPU: pools for recorded steps. split_blocks_test.cpp tests its large blocks.
#include "core/device/counting_source.h"

#include <tandem/core/device/gpu_allocator.h>

#include <gtest/gtest.h>

#include <thread>

namespace tandem {
namespace {

// What the steps before a recording left behind serves the recording, and others only after it.
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
  EXPECT_NE(other, before);  // it is the pool's, though free
  EXPECT_EQ(source.taken.size(), 3u);
  allocator.deallocate(more, 5000);
  allocator.drop_pool(pool);
  for (int i = 0; i < 2; ++i) allocator.allocate(5000);
  EXPECT_EQ(source.taken.size(), 3u);
}

// A recording may use a block again that it has freed. Another thread that got it meanwhile would find its numbers
// overwritten by each replay.
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
    EXPECT_EQ(allocator.allocate(bytes), elsewhere) << bytes;  // which never became the pool's
    allocator.drop_pool(pool);
  }
}

}  // namespace
}  // namespace tandem
