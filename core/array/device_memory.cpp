#include <tandem/core/array/device_memory.h>
#include <tandem/core/base/check.h>
#include <tandem/core/base/number_in.h>

#include <string>
#include <string_view>

namespace tandem {

namespace {

const DeviceKind* find(Device::Kind kind) {
  for (const DeviceKind& known : device_kinds.entries())
    if (known.kind == kind) return &known;
  return nullptr;
}

}  // namespace

DeviceMemory& device_memory(Device device) {
  const DeviceKind* const kind = find(device.kind);
  TANDEM_CHECK(kind, device, ": this build has no CUDA back-end (cmake --preset cuda); use the cpu device");
  return kind->of_device(device.index);
}

int device_count(Device::Kind kind) {
  const DeviceKind* const known = find(kind);
  return known ? known->count() : 0;
}

void synchronize(Device device) { device_memory(device).synchronize(); }

MemoryStats memory_stats(Device device) { return device_memory(device).allocator().stats(); }
void empty_cache(Device device) { device_memory(device).allocator().empty_cache(); }
void reset_peak_memory(Device device) { device_memory(device).allocator().reset_peak(); }

Device parse_device(std::string_view text) {
  if (text == "cpu") return {};
  if (text == "cuda") return Device::cuda(0);
  constexpr std::string_view prefix = "cuda:";
  if (text.starts_with(prefix)) {
    if (const auto index = number_in(text.substr(prefix.size()), 0)) return Device::cuda(*index);
  }
  detail::fail("'", text, "' is not a device: expected cpu, cuda or cuda:1");
}

}  // namespace tandem
