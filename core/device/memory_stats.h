// What a device's caching allocator holds and has asked of the system. Two readings with the same system_requests say
// that the work between them allocated nothing new.
#pragma once

#include <tandem/core/device/device.h>

#include <cstdint>

namespace tandem {

struct MemoryStats {
  std::uint64_t system_requests = 0;  // how often a block had to come from the system
  std::uint64_t system_bytes = 0;     // all that was obtained so far, also what has been given back since
  std::uint64_t bytes_in_use = 0;     // by Arrays, now; as the other two in whole blocks
  std::uint64_t bytes_cached = 0;     // waiting for a request
  std::uint64_t peak_bytes_in_use = 0;
};

// Any thread may call it.
MemoryStats memory_stats(Device device = {});

}  // namespace tandem
