#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/sgd_update.h>
#include <tandem/core/cuda/launch.cuh>

namespace tandem {

namespace {

constexpr int threads = 256, per_thread = 8;
constexpr std::int64_t chunk = threads * per_thread;  // numbers that a block updates

// Segments as the argument of a kernel: nothing is uploaded, and a graph that records the launch records them too.
struct Segments {
  static constexpr int most = 84;
  struct Entry {
    SgdSegment segment;
    unsigned first_block;
  };
  Entry entries[most];
  int count = 0;
  unsigned blocks = 0;

  void add(const SgdSegment& segment) {
    entries[count++] = {segment, blocks};
    blocks += static_cast<unsigned>((segment.numel + chunk - 1) / chunk);
  }
  __device__ const Entry& of_block(unsigned block) const {
    int first = 0, last = count - 1;
    while (first < last) {
      const int middle = (first + last + 1) / 2;
      if (entries[middle].first_block <= block) first = middle;
      else last = middle - 1;
    }
    return entries[first];
  }
};
static_assert(sizeof(Segments) + sizeof(SgdUpdate) <= 4096, "what a kernel takes as arguments");

// A block for each chunk of a segment. All is loaded before anything is stored, so that the loads are under way together.
__global__ void update_chunks(const __grid_constant__ Segments segments, SgdUpdate update) {
  const auto& [s, first_block] = segments.of_block(blockIdx.x);
  const std::int64_t first = (blockIdx.x - first_block) * chunk + threadIdx.x;
  const bool has_velocity = s.momentum && !s.momentum_is_fresh;
  float parameter[per_thread] = {}, gradient[per_thread] = {}, velocity[per_thread] = {};
  for (int k = 0; k < per_thread; ++k) {
    const std::int64_t i = first + k * threads;
    if (i >= s.numel) continue;
    parameter[k] = s.parameter[i];
    gradient[k] = s.gradient[i];
    if (has_velocity) velocity[k] = s.momentum[i];
  }
  for (int k = 0; k < per_thread; ++k) {
    const std::int64_t i = first + k * threads;
    if (i >= s.numel) continue;
    if (s.momentum) {
      update(parameter[k], gradient[k], velocity[k], s.momentum_is_fresh);
      s.momentum[i] = velocity[k];
    } else {
      update(parameter[k], gradient[k]);
    }
    s.parameter[i] = parameter[k];
  }
}

}  // namespace

void CudaBackend::sgd_step(std::span<const SgdSegment> segments, const SgdOptions& options) {
  const SgdUpdate update(options);
  Segments some{};
  const auto launch = [&] {
    if (some.blocks > 0) cuda::launch(update_chunks, dim3(some.blocks), dim3(threads), some, update);
    some = {};
  };
  for (const SgdSegment& segment : segments) {
    if (segment.numel == 0) continue;
    if (some.count == Segments::most) launch();
    some.add(segment);
  }
  launch();
}

}  // namespace tandem
