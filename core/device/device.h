// Device: where numbers live.
#pragma once

#include <ostream>
#include <string_view>

namespace tandem {

struct Device {
  enum class Kind { cpu, cuda };
  Kind kind = Kind::cpu;
  int index = 0;  // which GPU; always 0 on the CPU

  static Device cuda(int index) { return {Kind::cuda, index}; }
  bool is_cpu() const { return kind == Kind::cpu; }
  bool operator==(const Device&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, Device device) {
  return device.is_cpu() ? out << "cpu" : out << "cuda:" << device.index;
}

// "cpu", "cuda" (the first GPU) or "cuda:1". Error for anything else.
Device parse_device(std::string_view text);

// The number of devices of a kind that this process can use. There are 0 GPUs when this build has no CUDA back-end,
// when there is no driver, and when CUDA_VISIBLE_DEVICES names none.
int device_count(Device::Kind kind);

// Waits until the device has done all work that this thread asked of it. Error when some of that work failed, because
// work on a GPU runs later than the call that starts it.
void synchronize(Device device);

}  // namespace tandem
