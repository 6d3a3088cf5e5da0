// SplitBlocks: large blocks that are cut from the slabs of a memory, and joined again.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace tandem {

// A slab is what comes from the system at once (PyTorch calls it a segment). It consists of blocks without gaps. A
// request takes the smallest free block that is large enough, and leaves the rest of it free. Free neighbours become
// one block. Each block belongs to a pool, and blocks of different pools are not joined. For one thread.
class SplitBlocks {
 public:
  using Pool = int;

  // A whole slab as a free block.
  void add_slab(void* data, std::size_t bytes, Pool pool);
  // A free block of pool `from` for `bytes`, which now belongs to pool `to`; nullptr where none is large enough.
  void* take(std::size_t bytes, Pool from, Pool to);
  // The size of a block that was taken: at least what was asked for.
  std::size_t size_of(void* block) const { return blocks_.at(static_cast<char*>(block)).bytes; }
  void give_back(void* block);
  // What belongs to `pool` belongs to pool 0 from now on.
  void drop_pool(Pool pool);
  // Takes the slabs of pool 0 out of which no block is taken. They are the caller's then.
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
  // What is left of a block is cut off where it is at least so large (1 MiB).
  static constexpr std::size_t least_rest = std::size_t{1} << 20;

  void join(Blocks::iterator block);

  Blocks blocks_;
  std::map<Pool, std::set<std::pair<std::size_t, char*>>> free_;  // the smallest first
};

}  // namespace tandem
