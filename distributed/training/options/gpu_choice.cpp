#include <tandem/core/backend/backend.h>
#include <tandem/core/base/check.h>
#include <tandem/distributed/training/options/gpu_choice.h>

#include <cstdlib>

namespace tandem::distributed {

#ifdef TANDEM_HAS_CUDA
const bool build_has_cuda = true;
#else
const bool build_has_cuda = false;
#endif

Device find_gpu(const Environment& environment, bool is_auto) {
  const int count = device_count(Device::Kind::cuda);
  if (count == 0) backend(Device::cuda(0));  // throws an Error with the reason
  // A process that sees one GPU may have it to itself, because the launcher hides the other GPUs. --device auto assumes
  // that only if CUDA_VISIBLE_DEVICES is set. If processes do share the GPU, nccl_group() detects that.
  const bool may_be_own = count == 1 && (!is_auto || std::getenv("CUDA_VISIBLE_DEVICES"));
  TANDEM_CHECK(count == 0 || may_be_own || environment.local_world_size <= count, "this host has ",
               environment.local_world_size, " processes and ", count, count == 1 ? " GPU" : " GPUs",
               ": start at most one process for each GPU");
  const Device device = Device::cuda(gpu_of(environment, count));
  backend(device);
  return device;
}

}  // namespace tandem::distributed
