// DeviceMemory: what Arrays need of their device. Backend (core/backend/backend.h) adds the operations.
#pragma once

#include <tandem/core/base/annex.h>
#include <tandem/core/device/caching_allocator.h>
#include <tandem/core/device/device.h>

#include <cstddef>

namespace tandem {

class Array;

// Any thread may call. Outputs are the last argument.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // Its blocks are aligned for every vector instruction.
  virtual CachingAllocator& allocator() = 0;

  // Copies bytes between the host's memory and the device's, after all work that was started before. The copy is
  // complete when the call returns.
  virtual void upload(const void* host, void* data, std::size_t bytes) = 0;
  virtual void download(const void* data, void* host, std::size_t bytes) = 0;
  // Waits for all work that this thread started. Error when some of it failed.
  virtual void synchronize() = 0;

  // Both arrays are on this device, of one shape, with any strides. copy() converts between dtypes.
  virtual void copy(const Array& from, const Array& to) = 0;
  virtual void fill(const Array& to, double value) = 0;
};

// A kind of device that this build knows.
struct DeviceKind {
  Device::Kind kind;
  DeviceMemory& (*of_device)(int index);  // Error when there is no such device
  int (*count)();                         // 0 where there is no driver
};
// Each back-end adds its kind.
AnnexList<DeviceKind>& device_kinds();

// Error when this build has no such kind of device, or the process no such device. This thread's calls go to that
// device from then on.
DeviceMemory& device_memory(Device device);

}  // namespace tandem
