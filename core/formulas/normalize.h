// The brightness that a network takes, from the bytes of an image, the same on every device.
#pragma once

#include <tandem/core/base/half.h>

namespace tandem {

// (byte / 255 - mean) / std
struct Normalize {
  float mean = 0, std = 1;
  TANDEM_HOST_DEVICE float operator()(std::uint8_t byte) const {
    // Divisions, not multiplications by reciprocals, whose results would differ in the last bit.
    return (static_cast<float>(byte) / 255.0f - mean) / std;
  }
};

}  // namespace tandem
