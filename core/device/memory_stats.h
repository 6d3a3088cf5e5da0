// What a device's caching allocator holds, and what it has asked of the system. When two readings have the same
// system_requests, the work between them allocated nothing new.
#pragma once

#include <tandem/core/device/device.h>

#include <cstdint>

namespace tandem {

struct MemoryStats {
  std::uint64_t system_requests = 0;  // how often a block had to come from the system
  std::uint64_t system_bytes = 0;     // obtained from the system so far, including what has been given back since
  std::uint64_t bytes_in_use = 0;     // held by Arrays now; this and the next two count whole blocks
  std::uint64_t bytes_cached = 0;     // in blocks that wait for a request
  std::uint64_t peak_bytes_in_use = 0;
};

// Any thread may call these. From reset_peak_memory() on, peak_bytes_in_use is the most that was in use since then.
MemoryStats memory_stats(Device device = {});
void reset_peak_memory(Device device = {});
// Gives the blocks that wait for a request back to the system: before another program needs the memory.
void empty_cache(Device device = {});

}  // namespace tandem
