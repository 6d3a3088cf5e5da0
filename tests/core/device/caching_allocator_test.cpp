// The allocator of every device: size classes, and what goes back to the system.
#include <tandem/core/device/caching_allocator.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <thread>

namespace tandem {
namespace {

// Memory of a given size that counts what is taken from it.
class Source : public MemorySource {
 public:
  std::size_t left = std::size_t{1} << 40;
  std::map<void*, std::size_t> taken;

  void* allocate(std::size_t bytes) override {
    if (bytes > left) return nullptr;
    left -= bytes;
    void* block = reinterpret_cast<void*>(next_ += std::uintptr_t{1} << 40);
    taken[block] = bytes;
    return block;
  }
  void release(void* block, std::size_t bytes) override {
    EXPECT_EQ(taken.at(block), bytes);
    left += bytes;
    taken.erase(block);
  }

 private:
  std::uintptr_t next_ = 0;
};

TEST(CachingAllocator, WastesAQuarterOfSmallRequestsAndASixteenthOfLargeOnes) {
  Source source;
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

// What the steps before a recording left behind serves the recording, and others only after it.
TEST(CachingAllocator, APoolTakesCachedBlocksFirst) {
  Source source;
  CachingAllocator allocator(source, 512);
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
TEST(CachingAllocator, OtherThreadsGetNothingOfAnOpenPool) {
  for (const std::size_t bytes : {std::size_t{5000}, std::size_t{5} << 20}) {
    Source source;
    CachingAllocator allocator(source, 512, true);
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

TEST(CachingAllocator, GivesBackWhatIsFreeWhenMemoryIsOut) {
  Source source;
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

}  // namespace
}  // namespace tandem
