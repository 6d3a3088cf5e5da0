// Device: where the numbers of an Array are stored.
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

// Parses "cpu", "cuda" (the first GPU) or "cuda:1". Throws an Error for any other text.
Device parse_device(std::string_view text);

// Returns the number of devices of a kind that this process can use. It is 0 for GPUs if this build has no CUDA
// back-end, if there is no driver, or if CUDA_VISIBLE_DEVICES hides all of them.
int device_count(Device::Kind kind);

// Waits until the device has finished all work that this thread started. Throws an Error if some of that work failed,
// because a GPU runs work later than the call that starts it.
void synchronize(Device device);

}  // namespace tandem
