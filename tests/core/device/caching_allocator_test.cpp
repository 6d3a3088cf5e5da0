// The allocator of every device: size classes, and what goes back to the system.
#include "core/device/counting_source.h"

#include <tandem/core/device/caching_allocator.h>

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(CachingAllocator, WastesAQuarterOfSmallRequestsAndASixteenthOfLargeOnes) {
  testing::CountingSource source;
  CachingAllocator allocator(source, 512);
  for (std::size_t bytes = 1; bytes < std::size_t{1} << 33; bytes += bytes / 7 + 1) {
    void* block = allocator.allocate(bytes);
    const std::size_t given = source.taken.at(block);
    EXPECT_EQ(given % 512, 0);
    EXPECT_GE(given, bytes);
    const std::size_t waste = bytes < std::size_t{1} << 20 ? bytes / 4 : bytes / 16;
    EXPECT_LE(given, bytes + waste + 512) << bytes;
    allocator.deallocate(block, bytes);
    EXPECT_EQ(allocator.allocate(bytes), block);
    allocator.deallocate(block, bytes);
  }
}

TEST(CachingAllocator, GivesBackWhatIsFreeWhenMemoryIsOut) {
  testing::CountingSource source;
  source.left = std::size_t{64} << 20;
  CachingAllocator allocator(source, 512);
  for (std::size_t bytes = 700; bytes < std::size_t{20} << 20; bytes = bytes * 9 / 8)
    allocator.deallocate(allocator.allocate(bytes), bytes);
  EXPECT_GT(allocator.stats().bytes_cached, 0);
  allocator.allocate(std::size_t{60} << 20);  // fits only alone
  EXPECT_EQ(source.taken.size(), 1u);
  EXPECT_EQ(allocator.stats().bytes_cached, 0);
  EXPECT_THROW(allocator.allocate(std::size_t{60} << 20), std::exception);
}

TEST(CachingAllocator, ThePeakCountsFromItsReset) {
  testing::CountingSource source;
  CachingAllocator allocator(source, 512);
  void* const kept = allocator.allocate(512);
  allocator.deallocate(allocator.allocate(4096), 4096);
  EXPECT_EQ(allocator.stats().peak_bytes_in_use, 512u + 4096u);
  allocator.reset_peak();
  EXPECT_EQ(allocator.stats().peak_bytes_in_use, 512u);
  allocator.deallocate(allocator.allocate(1024), 1024);
  EXPECT_EQ(allocator.stats().peak_bytes_in_use, 512u + 1024u);
  allocator.deallocate(kept, 512);
}

}  // namespace
}  // namespace tandem
