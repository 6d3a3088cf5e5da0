// SplitBlocks: splits slabs of memory into large blocks, and merges free blocks again.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace tandem {

// A slab is memory that one system request returned (PyTorch calls it a segment). It consists of blocks without gaps. A
// request gets the smallest free block that is large enough, and the rest of that block stays free. Adjacent free
// blocks are merged. Each block belongs to a pool; blocks of different pools are not merged. Only one thread at a time
// may use a SplitBlocks.
class SplitBlocks {
 public:
  using Pool = int;

  // Adds a slab as one free block.
  void add_slab(void* data, std::size_t bytes, Pool pool);
  // Takes a free block of at least `bytes` from pool `from` and moves it to pool `to`. Returns nullptr if none is large
  // enough.
  void* take(std::size_t bytes, Pool from, Pool to);
  // Returns the size of an allocated block, which is at least the requested size.
  std::size_t size_of(void* block) const { return blocks_.at(static_cast<char*>(block)).bytes; }
  void give_back(void* block);
  // Moves all blocks of `pool` to pool 0.
  void drop_pool(Pool pool);
  // Removes and returns the slabs of pool 0 that are entirely free. The caller then owns them.
  std::vector<std::pair<void*, std::size_t>> take_unused_slabs();

 private:
  struct Block {
    std::size_t bytes;
    char* slab;
    std::size_t slab_bytes;
    Pool pool;
    bool is_free;
  };
  using Blocks = std::map<char*, Block>;
  // The rest of a block is split off only if it has at least this size (1 MiB).
  static constexpr std::size_t least_rest = std::size_t{1} << 20;

  void join(Blocks::iterator block);

  Blocks blocks_;
  std::map<Pool, std::set<std::pair<std::size_t, char*>>> free_;  // the smallest first
};

}  // namespace tandem
