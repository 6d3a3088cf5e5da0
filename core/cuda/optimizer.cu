#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/formulas/segments_norm.h>
#include <tandem/core/cuda/block_tree.cuh>
#include <tandem/core/cuda/update.cuh>
#include <tandem/core/cuda/warp.cuh>

namespace tandem {

namespace {

using cuda::block_threads;
using cuda::blocks_of;
using cuda::numbers_per_block;
using cuda::numbers_per_thread;
using cuda::update_by;
using cuda::write;

void update_by(std::span<const UpdateSegment> segments, const OwnRule& rule, const void* stored) {
  TANDEM_CHECK(rule.launch,
               "the optimizer's rule has no code for a GPU: compile the file that calls optim::own_rule() with nvcc "
               "(as a .cu file), or derive from optim::OptimizerOf and update whole arrays");
  rule.launch(segments, rule.numbers.data(), stored);
}

void write(const OwnRule& rule, void* to) {
  if (rule.write) rule.write(rule.numbers.data(), to);
}

struct NormEntry {
  const float* numbers;
  std::int64_t numel;
  unsigned first_block;
};
using NormSegments = cuda::Segments<NormEntry, 56>;

// Each block takes numbers_per_block numbers of a segment. The norm needs `all` blocks in total, in several launches if
// necessary. This block has the number first + blockIdx.x among them.
template <NormKind kind>
__global__ void norm_chunks(const __grid_constant__ NormSegments segments, double p, unsigned first, unsigned all,
                            cuda::TreeStates<NormSum<kind>, NormSum<kind>> states, float* norm) {
  const auto& s = segments.of_block(blockIdx.x);
  const std::int64_t begin = (blockIdx.x - s.first_block) * numbers_per_block + threadIdx.x;
  float numbers[numbers_per_thread] = {};
  for (int k = 0; k < numbers_per_thread; ++k) {
    const std::int64_t i = begin + k * block_threads;
    if (i < s.numel) numbers[k] = s.numbers[i];
  }
  NormSum<kind> sum;
  // Numbers after the end count as zeros, which add nothing.
  for (int k = 0; k < numbers_per_thread; ++k) sum.add(numbers[k], p);
  cuda::merge_block(sum);
  cuda::merge_blocks(first + blockIdx.x, all, sum, states, [&](const NormSum<kind>& whole) { *norm = whole.norm(p); });
}

}  // namespace

void CudaBackend::update(std::span<const UpdateSegment> segments, const UpdateRule& rule, const void* stored) {
  std::visit([&](const auto& r) { update_by(segments, r, stored); }, rule.any());
}

void CudaBackend::write_rule(const UpdateRule& rule, void* to) {
  std::visit([&](const auto& r) { write(r, to); }, rule.any());
}

void CudaBackend::segments_norm(std::span<const Segment> segments, double p, const Array& norm) {
  unsigned all = 0;
  for (const Segment& s : segments) all += blocks_of(s.numel);
  if (all == 0) return fill(norm, 0);  // of no numbers
  with_norm_kind(p, [&](auto kind) {
    const cuda::TreeMemory<NormSum<kind>, NormSum<kind>> memory(all, 1, norm.device());
    unsigned first = 0;
    NormSegments some{};
    const auto launch = [&] {
      if (some.blocks > 0)
        cuda::launch(norm_chunks<kind>, dim3(some.blocks), dim3(block_threads), some, p, first, all, memory.states(),
                     static_cast<float*>(norm.raw()));
      first += some.blocks;
      some = {};
    };
    for (const Segment& s : segments)
      if (s.numel > 0 && !some.add({s.numbers, s.numel, 0}, s.numel)) launch();
    launch();
  });
}

}  // namespace tandem
