// The memory in a device's caching allocator, and its requests to the system. If two readings have the same
// system_requests, the work between them allocated no new memory.
#pragma once

#include <tandem/core/device/device.h>

#include <cstdint>

namespace tandem {

struct MemoryStats {
  std::uint64_t system_requests = 0;  // how often a block was allocated from the system
  std::uint64_t system_bytes = 0;     // allocated from the system so far, including memory that was released since
  std::uint64_t bytes_in_use = 0;     // used by Arrays now; this and the next two count whole blocks
  std::uint64_t bytes_cached = 0;     // in free blocks
  std::uint64_t peak_bytes_in_use = 0;
};

// Any thread may call these functions. After reset_peak_memory(), peak_bytes_in_use is the peak since that call.
MemoryStats memory_stats(Device device = {});
void reset_peak_memory(Device device = {});
// Returns free blocks to the system, for instance before another program needs the memory.
void empty_cache(Device device = {});

}  // namespace tandem
