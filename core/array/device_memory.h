// DeviceMemory: the operations of a device that Arrays need. Backend (core/backend/backend.h) adds all others.
#pragma once

#include <tandem/core/base/annex.h>
#include <tandem/core/device/caching_allocator.h>
#include <tandem/core/device/device.h>

#include <cstddef>

namespace tandem {

class Array;

// Any thread may call these functions. Outputs are the last arguments.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // Returns the allocator. Its blocks are aligned for every vector instruction.
  virtual CachingAllocator& allocator() = 0;

  // Copies bytes between host memory and device memory, after all work that was started earlier. The copy is complete
  // when the call returns.
  virtual void upload(const void* host, void* data, std::size_t bytes) = 0;
  virtual void download(const void* data, void* host, std::size_t bytes) = 0;
  // Waits for all work that this thread started. Throws an Error if some of it failed.
  virtual void synchronize() = 0;

  // Both arrays are on this device and have the same shape, with any strides. copy() converts between dtypes.
  virtual void copy(const Array& from, const Array& to) = 0;
  virtual void fill(const Array& to, double value) = 0;
};

// A kind of device that this build supports.
struct DeviceKind {
  Device::Kind kind;
  DeviceMemory& (*of_device)(int index);  // throws an Error if there is no such device
  int (*count)();                         // returns 0 if there is no driver
};
// The list to which each back-end adds its kind of device.
inline constinit AnnexList<DeviceKind> device_kinds{add_core_annexes};

// Returns the memory of `device` and makes it this thread's current device. Throws an Error if this build has no such
// kind of device, or this process no such device.
DeviceMemory& device_memory(Device device);

}  // namespace tandem
