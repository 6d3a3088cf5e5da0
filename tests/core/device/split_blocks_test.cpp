// Large blocks: they are cut from slabs, joined again, and separate for each pool.
#include <tandem/core/device/gpu_allocator.h>
#include <tandem/core/device/split_blocks.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <vector>

namespace tandem {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

// Addresses that no code accesses.
char* at(std::size_t address) { return reinterpret_cast<char*>(address); }

TEST(SplitBlocks, TakesTheSmallestThatFitsAndJoinsNeighbours) {
  SplitBlocks blocks;
  blocks.add_slab(at(100 * mib), 20 * mib, 0);
  blocks.add_slab(at(200 * mib), 10 * mib, 0);
  EXPECT_EQ(blocks.take(30 * mib, 0, 0), nullptr);
  void* const a = blocks.take(4 * mib, 0, 0);
  EXPECT_EQ(a, at(200 * mib));
  void* const b = blocks.take(6 * mib - 5, 0, 0);  // the rest of the slab would be too small for a block
  EXPECT_EQ(b, at(204 * mib));
  EXPECT_EQ(blocks.size_of(a), 4 * mib);
  EXPECT_EQ(blocks.size_of(b), 6 * mib);
  void* const c = blocks.take(8 * mib, 0, 0);
  EXPECT_EQ(c, at(100 * mib));
  blocks.give_back(b);
  blocks.give_back(a);
  EXPECT_EQ(blocks.take(10 * mib, 0, 0), at(200 * mib));  // joined to one block again
  blocks.give_back(at(200 * mib));
  blocks.give_back(c);
  const auto unused = blocks.take_unused_slabs();
  ASSERT_EQ(unused.size(), 2u);
  EXPECT_EQ(unused[0].second, 20 * mib);
  EXPECT_EQ(unused[1].second, 10 * mib);
}

TEST(SplitBlocks, PoolsAreNotJoined) {
  SplitBlocks blocks;
  blocks.add_slab(at(100 * mib), 8 * mib, 0);
  void* const mine = blocks.take(4 * mib, 0, 1);
  blocks.give_back(mine);
  EXPECT_EQ(blocks.take(8 * mib, 0, 0), nullptr);
  EXPECT_TRUE(blocks.take_unused_slabs().empty());
  EXPECT_EQ(blocks.take(3 * mib, 1, 1), mine);
  blocks.give_back(mine);
  blocks.drop_pool(1);
  EXPECT_EQ(blocks.take(8 * mib, 0, 0), mine);
}

// A memory source like a GPU's driver, called as the allocator of a GPU calls it.
class Source : public MemorySource {
 public:
  std::map<char*, std::size_t> slabs;
  void* allocate(std::size_t bytes) override {
    char* const slab = at(next_);
    next_ += bytes + mib;
    slabs[slab] = bytes;
    return slab;
  }
  void release(void* slab, std::size_t bytes) override {
    EXPECT_EQ(slabs.at(static_cast<char*>(slab)), bytes);
    slabs.erase(static_cast<char*>(slab));
  }

 private:
  std::size_t next_ = 1000 * mib;
};

// Blocks in use never overlap, and each lies within a slab. At the end, all free blocks are joined.
TEST(SplitBlocks, RandomRequestsDoNotOverlap) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    Source source;
    GpuAllocator allocator(source, 512);
    std::map<char*, std::size_t> used;
    std::vector<GpuAllocator::Pool> pools;
    bool is_open = false;
    std::size_t in_use = 0;
    for (int i = 0; i < 2000; ++i) {
      const unsigned dice = random() % 100;
      if (dice < 2 && !is_open) {
        pools.push_back(allocator.open_pool());
        is_open = true;
      } else if (dice < 4 && is_open) {
        allocator.close_pool();
        is_open = false;
      } else if (dice < 5 && !is_open && !pools.empty()) {
        allocator.drop_pool(pools.back());
        pools.pop_back();
      } else if (dice < 52 || used.empty()) {
        const std::size_t bytes = random() % 3 == 0 ? 1 + random() % 5000 : 1 + random() % (12 * mib);
        auto* const block = static_cast<char*>(allocator.allocate(bytes));
        const auto [place, is_new] = used.emplace(block, bytes);
        ASSERT_TRUE(is_new);
        in_use += bytes;
        if (place != used.begin()) {
          ASSERT_LE(std::prev(place)->first + std::prev(place)->second, block);
        }
        if (std::next(place) != used.end()) {
          ASSERT_LE(block + bytes, std::next(place)->first);
        }
        const auto slab = std::prev(source.slabs.upper_bound(block));
        ASSERT_LE(block + bytes, slab->first + slab->second);
      } else {
        auto chosen = used.begin();
        std::advance(chosen, random() % used.size());
        allocator.deallocate(chosen->first, chosen->second);
        in_use -= chosen->second;
        used.erase(chosen);
      }
      ASSERT_GE(allocator.stats().bytes_in_use, in_use);
      std::size_t all = 0;
      for (const auto& [slab, bytes] : source.slabs) all += bytes;
      ASSERT_EQ(allocator.stats().bytes_in_use + allocator.stats().bytes_cached, all);
    }
    if (is_open) allocator.close_pool();
    for (const auto& [block, bytes] : used) allocator.deallocate(block, bytes);
    for (const auto pool : pools) allocator.drop_pool(pool);
    EXPECT_EQ(allocator.stats().bytes_in_use, 0u);
  }
}

// A step that requests the same memory each time takes nothing from the system after its first run.
TEST(SplitBlocks, ASteadyStepIsServedFromWhatIsThere) {
  Source source;
  GpuAllocator allocator(source, 512);
  std::uint64_t requests = 0;
  for (int step = 0; step < 5; ++step) {
    std::vector<std::pair<void*, std::size_t>> held;
    for (std::size_t i = 0; i < 200; ++i) {
      const std::size_t bytes = mib + i * 7919 * 131 % (9 * mib);
      held.emplace_back(allocator.allocate(bytes), bytes);
      if (i % 3 != 0) continue;
      allocator.deallocate(held[i / 2].first, held[i / 2].second);
      held[i / 2].first = allocator.allocate(held[i / 2].second / 2 + mib);
      held[i / 2].second = held[i / 2].second / 2 + mib;
    }
    for (const auto& [block, bytes] : held) allocator.deallocate(block, bytes);
    if (step == 0) requests = allocator.stats().system_requests;
    EXPECT_EQ(allocator.stats().system_requests, requests) << "step " << step;
  }
}

}  // namespace
}  // namespace tandem
