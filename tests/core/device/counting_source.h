#pragma once

#include <tandem/core/device/caching_allocator.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <map>

namespace tandem::testing {

// Memory of a given size that counts what is allocated from it. Its addresses are invented.
class CountingSource : public MemorySource {
 public:
  std::size_t left = std::size_t{1} << 40;
  std::map<void*, std::size_t> taken;
  int trims = 0;

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

  void trimmed() override { ++trims; }

 private:
  std::uintptr_t next_ = 0;
};

}  // namespace tandem::testing
