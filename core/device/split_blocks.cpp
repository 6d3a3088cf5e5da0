#include <tandem/core/device/split_blocks.h>

#include <iterator>

namespace tandem {

void SplitBlocks::add_slab(void* data, std::size_t bytes, Pool pool) {
  auto* const begin = static_cast<char*>(data);
  blocks_.emplace(begin, Block{bytes, begin, bytes, pool, true});
  free_[pool].emplace(bytes, begin);
}

void* SplitBlocks::take(std::size_t bytes, Pool from, Pool to) {
  auto& free = free_[from];
  const auto found = free.lower_bound({bytes, nullptr});
  if (found == free.end()) return nullptr;
  char* const at = found->second;
  free.erase(found);
  Block& block = blocks_.at(at);
  if (const std::size_t rest = block.bytes - bytes; rest >= least_rest) {
    block.bytes = bytes;
    blocks_.emplace(at + bytes, Block{rest, block.slab, block.slab_bytes, from, true});
    free.emplace(rest, at + bytes);
  }
  block.pool = to;
  block.is_free = false;
  return at;
}

void SplitBlocks::give_back(void* block) {
  const auto at = blocks_.find(static_cast<char*>(block));
  at->second.is_free = true;
  join(at);
}

// Merges a free block with its free neighbours and adds the result to the free blocks.
void SplitBlocks::join(Blocks::iterator block) {
  auto& free = free_[block->second.pool];
  const auto belongs = [&](const Block& other) {
    return other.is_free && other.slab == block->second.slab && other.pool == block->second.pool;
  };
  if (const auto next = std::next(block); next != blocks_.end() && belongs(next->second)) {
    free.erase({next->second.bytes, next->first});
    block->second.bytes += next->second.bytes;
    blocks_.erase(next);
  }
  if (block != blocks_.begin()) {
    if (const auto before = std::prev(block); belongs(before->second)) {
      free.erase({before->second.bytes, before->first});
      before->second.bytes += block->second.bytes;
      blocks_.erase(block);
      block = before;
    }
  }
  free.emplace(block->second.bytes, block->first);
}

void SplitBlocks::drop_pool(Pool pool) {
  const auto freed = std::move(free_[pool]);
  free_.erase(pool);
  for (auto& [at, block] : blocks_)
    if (block.pool == pool) block.pool = 0;
  for (const auto& [bytes, at] : freed) {
    // A neighbour may have been merged with it already.
    if (const auto block = blocks_.find(at); block != blocks_.end()) {
      free_[0].erase({block->second.bytes, at});
      join(block);
    }
  }
}

std::vector<std::pair<void*, std::size_t>> SplitBlocks::take_unused_slabs() {
  std::vector<std::pair<void*, std::size_t>> unused;
  for (auto at = blocks_.begin(); at != blocks_.end();) {
    const Block& block = at->second;
    if (!block.is_free || block.pool != 0 || block.bytes != block.slab_bytes) {
      ++at;
      continue;
    }
    free_[0].erase({block.bytes, at->first});
    unused.emplace_back(at->first, block.bytes);
    at = blocks_.erase(at);
  }
  return unused;
}

}  // namespace tandem
