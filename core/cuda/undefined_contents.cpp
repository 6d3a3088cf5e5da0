#include <tandem/core/cuda/undefined_contents.h>

#include <array>
#include <mutex>
#include <utility>

namespace tandem::cuda {
namespace {

struct Causes {
  std::mutex mutex;  // guards of_device
  std::array<std::exception_ptr, 64> of_device;
};
Causes& causes() {
  static auto* instance = new Causes;  // never destroyed: threads may outlive main()
  return *instance;
}

}  // namespace

void mark_undefined(int device, std::exception_ptr cause) {
  const std::lock_guard lock(causes().mutex);
  causes().of_device.at(static_cast<std::size_t>(device)) = std::move(cause);
}

void check_defined(int device) {
  const std::lock_guard lock(causes().mutex);
  auto& cause = causes().of_device.at(static_cast<std::size_t>(device));
  if (cause) std::rethrow_exception(std::exchange(cause, nullptr));
}

}  // namespace tandem::cuda
