// Converts the bytes of an image to the brightness values that a network expects, the same way on every device.
#pragma once

#include <tandem/core/base/half.h>

namespace tandem {

// (byte / 255 - mean) / std
struct Normalize {
  float mean = 0, std = 1;
  TANDEM_HOST_DEVICE float operator()(std::uint8_t byte) const {
    // Multiplying by reciprocals instead of dividing would change the last bit of the results.
    return (static_cast<float>(byte) / 255.0f - mean) / std;
  }
};

}  // namespace tandem
