#include <tandem/core/base/check.h>
#include <tandem/core/device/backend.h>

#include <charconv>
#include <string>

namespace tandem {

namespace {

struct Cuda {
  Backend& (*of_device)(int index) = nullptr;
  int (*device_count)() = [] { return 0; };
};

#ifdef TANDEM_HAS_CUDA
Cuda cuda_devices{cuda_backend, cuda_device_count};
#else
Cuda cuda_devices;
#endif

}  // namespace

Backend& backend(Device device) {
  if (device.is_cpu()) return cpu_backend();
  TANDEM_CHECK(cuda_devices.of_device, device,
               ": this build has no CUDA back-end (cmake --preset cuda); use the cpu device");
  return cuda_devices.of_device(device.index);
}

void set_cuda_backend(Backend& (*of_device)(int index), int (*device_count)()) {
  cuda_devices = {of_device, device_count};
}

int device_count(Device::Kind kind) { return kind == Device::Kind::cpu ? 1 : cuda_devices.device_count(); }

void synchronize(Device device) { backend(device).synchronize(); }

MemoryStats memory_stats(Device device) { return backend(device).memory_stats(); }

Device parse_device(std::string_view text) {
  if (text == "cpu") return {};
  if (text == "cuda") return Device::cuda(0);
  constexpr std::string_view prefix = "cuda:";
  if (text.starts_with(prefix)) {
    const std::string_view number = text.substr(prefix.size());
    int index = -1;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
    if (error == std::errc() && end == number.data() + number.size() && index >= 0) return Device::cuda(index);
  }
  detail::fail("'", text, "' is not a device: expected cpu, cuda or cuda:1");
}

}  // namespace tandem
