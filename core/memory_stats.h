// What a device's caching allocator has asked of the system. Two readings that are equal say that the work between them
// allocated nothing new.
#pragma once

#include <tandem/core/device.h>

#include <cstdint>

namespace tandem {

struct MemoryStats {
  std::uint64_t system_requests = 0;  // how often a block had to come from the system
  std::uint64_t system_bytes = 0;     // all that was obtained so far, also what has been given back since
};

// Any thread may call it.
MemoryStats memory_stats(Device device = {});

}  // namespace tandem
