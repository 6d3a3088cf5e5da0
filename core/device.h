// Device: where numbers live.
#pragma once

#include <ostream>

namespace tandem {

struct Device {
  enum class Kind { cpu, cuda };
  Kind kind = Kind::cpu;
  int index = 0;  // which GPU; always 0 on the CPU

  bool is_cpu() const { return kind == Kind::cpu; }
  bool operator==(const Device&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, Device device) {
  return device.is_cpu() ? out << "cpu" : out << "cuda:" << device.index;
}

}  // namespace tandem
