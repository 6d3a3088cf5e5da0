// The device on which the tests of operations run.
#pragma once

#include <tandem/core/device/device.h>

namespace tandem::testing {

#ifdef TANDEM_TABLE_ON_GPU
inline const Device device = Device::cuda(0);
#else
inline const Device device;
#endif

}  // namespace tandem::testing
