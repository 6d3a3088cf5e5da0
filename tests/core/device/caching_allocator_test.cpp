// The allocator of every device: its size classes, and the memory that it returns to the system.
#include "core/device/counting_source.h"

#include <tandem/core/array/array.h>
#include <tandem/core/device/caching_allocator.h>
#include <tandem/core/device/memory_stats.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

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
  allocator.allocate(std::size_t{60} << 20);  // fits only if nothing else is allocated
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

constexpr std::size_t mib = std::size_t{1} << 20;

// The sizes change in every step. The cached memory never exceeds the limit or the memory that was in use at once,
// whichever is larger.
TEST(CachingAllocator, KeepsNoMoreThanTheLimitOrTheRecentPeak) {
  testing::CountingSource source;
  CachingAllocator allocator(source, 64, 16 * mib);
  for (std::size_t step = 0; step < 300; ++step) {
    const std::size_t bytes = (1 + step * 7 % 100) * mib / 20;
    std::vector<void*> blocks;
    for (int i = 0; i < 4; ++i) blocks.push_back(allocator.allocate(bytes));
    for (void* block : blocks) allocator.deallocate(block, bytes);
    EXPECT_LE(allocator.stats().bytes_cached, std::max<std::size_t>(16 * mib, allocator.stats().peak_bytes_in_use));
  }
  EXPECT_GT(allocator.stats().bytes_cached, 8 * mib) << "not everything is given back";
  EXPECT_GT(source.trims, 0);
  allocator.empty_cache();
  EXPECT_EQ(allocator.stats().bytes_cached, 0u);
  EXPECT_TRUE(source.taken.empty());
}

// The host's own allocator, by the functions that programs call.
TEST(MemoryStats, EmptyCacheReturnsWhatIsFree) {
  { const Array freed = Array::empty({1 << 20}); }
  EXPECT_GE(memory_stats().bytes_cached, 4 * mib);
  empty_cache();
  EXPECT_EQ(memory_stats().bytes_cached, 0u);
}

TEST(CachingAllocator, StepsOfOneShapeAskForNothing) {
  testing::CountingSource source;
  CachingAllocator allocator(source, 64, mib);
  const auto step = [&] {
    std::vector<std::pair<void*, std::size_t>> blocks;
    for (std::size_t bytes = mib / 4; bytes <= 8 * mib; bytes *= 2)
      blocks.emplace_back(allocator.allocate(bytes), bytes);
    for (const auto& [block, bytes] : blocks) allocator.deallocate(block, bytes);
  };
  step();
  const auto requests = allocator.stats().system_requests;
  for (int i = 0; i < 60000; ++i) step();  // several periods
  EXPECT_EQ(allocator.stats().system_requests, requests);
}

}  // namespace
}  // namespace tandem
