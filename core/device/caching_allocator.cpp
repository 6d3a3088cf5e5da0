#include <tandem/core/base/check.h>
#include <tandem/core/device/caching_allocator.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace tandem {

CachingAllocator::SizeClass CachingAllocator::size_class(std::size_t bytes) const {
  bytes = std::max(bytes, alignment_);
  const std::size_t step = std::bit_floor(bytes) / (bytes < large ? 4 : most_steps);
  const std::size_t rounded = (bytes + step - 1) / step * step;
  const auto power = static_cast<std::size_t>(std::bit_width(rounded) - 1);
  const std::size_t index =
      power * most_steps + (rounded - std::bit_floor(rounded)) * most_steps / std::bit_floor(rounded);
  return {index, aligned(rounded)};
}

void* CachingAllocator::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const Block block = take(bytes);
  TANDEM_CHECK(block.data, "out of memory: ", bytes, " bytes could not be allocated", source_.situation(), "; ",
               stats_.bytes_in_use, " bytes are in use; use a smaller batch or model");
  source_.set_in_use(block.data, bytes, block.bytes);
  stats_.bytes_cached -= block.bytes;
  stats_.bytes_in_use += block.bytes;
  stats_.peak_bytes_in_use = std::max(stats_.peak_bytes_in_use, stats_.bytes_in_use);
  note_use();
  return block.data;
}

void CachingAllocator::deallocate(void* block, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t given = give_back(block, bytes);
  source_.set_in_use(block, 0, given);
  stats_.bytes_in_use -= given;
  stats_.bytes_cached += given;
  if (stats_.bytes_cached > most_cached_) trim();
}

void CachingAllocator::empty_cache() {
  const std::lock_guard lock(mutex_);
  release_cached();
  source_.trimmed();
}

void CachingAllocator::note_use() {
  // This is hundreds of steps of a small network, or tens of steps of a large one.
  constexpr std::uint64_t period = 50000;
  if (++requests_ % period == 0) peak_before_ = std::exchange(peak_now_, 0);
  peak_now_ = std::max(peak_now_, stats_.bytes_in_use);
}

void CachingAllocator::trim() {
  const std::uint64_t limit = std::max<std::uint64_t>({most_cached_, peak_now_, peak_before_});
  if (stats_.bytes_cached <= limit) return;
  while (stats_.bytes_cached > limit - limit / 8) {
    std::size_t oldest = free_.size();
    for (std::size_t i = 0; i < free_.size(); ++i)
      if (!free_[i].empty() && (oldest == free_.size() || last_request_[i] < last_request_[oldest])) oldest = i;
    if (oldest == free_.size()) return;
    release_class(oldest);
  }
  source_.trimmed();
}

MemoryStats CachingAllocator::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void CachingAllocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak_bytes_in_use = stats_.bytes_in_use;
}

CachingAllocator::Block CachingAllocator::take(std::size_t bytes) {
  const SizeClass wanted = size_class(bytes);
  last_request_[wanted.index] = requests_;
  return {take_from(free_[wanted.index], wanted.bytes), wanted.bytes};
}

std::size_t CachingAllocator::give_back(void* block, std::size_t bytes) {
  const SizeClass of = size_class(bytes);
  free_[of.index].push_back(block);
  return of.bytes;
}

void* CachingAllocator::take_from(std::vector<void*>& free, std::size_t bytes) {
  if (!free.empty()) {
    void* const block = free.back();
    free.pop_back();
    return block;
  }
  if (void* const block = from_source(bytes)) return block;
  release_cached();
  return from_source(bytes);
}

// New memory counts as cached until a request gets it.
void* CachingAllocator::from_source(std::size_t bytes) {
  void* const block = source_.allocate(bytes);
  if (!block) return nullptr;
  ++stats_.system_requests;
  stats_.system_bytes += bytes;
  stats_.bytes_cached += bytes;
  return block;
}

void CachingAllocator::release(void* block, std::size_t bytes) {
  source_.release(block, bytes);
  stats_.bytes_cached -= bytes;
}

void CachingAllocator::release_cached() {
  for (std::size_t i = 0; i < free_.size(); ++i)
    if (!free_[i].empty()) release_class(i);
}

void CachingAllocator::release_class(std::size_t index) {
  const std::size_t bytes =
      size_class((std::size_t{1} << index / most_steps) / most_steps * (most_steps + index % most_steps)).bytes;
  for (void* block : free_[index]) release(block, bytes);
  free_[index].clear();
}

}  // namespace tandem
