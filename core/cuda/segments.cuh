// Segments: many arrays that one kernel processes, so each of them needs no separate kernel.
#pragma once

#include <tandem/core/cuda/launch.cuh>

#include <cstdint>

namespace tandem::cuda {

inline constexpr int block_threads = 256, numbers_per_thread = 8;
inline constexpr std::int64_t numbers_per_block = block_threads * numbers_per_thread;  // numbers that a block takes

inline unsigned blocks_of(std::int64_t numel) {
  return static_cast<unsigned>((numel + numbers_per_block - 1) / numbers_per_block);
}

// Segments as the argument of a kernel. Nothing has to be uploaded, and a graph that records the launch records the
// segments with it. An Entry has `first_block`, the first of the blocks that work on it.
template <class Entry, int argument_bytes>
struct Segments {
  // A kernel takes 4096 bytes of arguments: these are the entries, `count`, `blocks` and the other arguments.
  static constexpr int most = (4096 - argument_bytes - 8) / static_cast<int>(sizeof(Entry));
  Entry entries[most];
  int count = 0;
  unsigned blocks = 0;

  // Adds an entry of `numel` numbers. Returns whether there is room for another entry.
  bool add(const Entry& entry, std::int64_t numel) {
    entries[count] = entry;
    entries[count++].first_block = blocks;
    blocks += blocks_of(numel);
    return count < most;
  }
  __device__ const Entry& of_block(unsigned block) const {
    int first = 0, last = count - 1;
    while (first < last) {
      const int middle = (first + last + 1) / 2;
      if (entries[middle].first_block <= block) first = middle;
      else last = middle - 1;
    }
    return entries[first];
  }
};

}  // namespace tandem::cuda
