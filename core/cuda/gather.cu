#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/faults.h>
#include <tandem/core/element_functions.h>
#include <tandem/core/normalize.h>
#include <tandem/core/cuda/index_check.cuh>
#include <tandem/core/cuda/loops.cuh>

namespace tandem {

namespace {

constexpr int threads = 256;

// Rows and indices as a kernel sees them. A thread moves a pack of neighbours; `size` is that of a row in packs.
struct GatherPlan {
  std::int64_t size, count;
  const std::int64_t* index;
  std::int64_t n;
};

// The first block also looks whether all indices name a row: one thread writes the note, about the first that does not.
template <class In, class Out, int width, class F>
__global__ void gather_packs(GatherPlan plan, const cuda::Pack<In, width>* rows, cuda::Pack<Out, width>* out,
                             F f, IndexFault* fault) {
  if (blockIdx.x == 0) {
    cuda::FirstPosition bad;
    for (std::int64_t i = threadIdx.x; i < plan.n; i += blockDim.x)
      if (plan.index[i] < 0 || plan.index[i] >= plan.count) bad.add(i);
    cuda::merge_block(bad);
    if (threadIdx.x == 0) cuda::note(fault, IndexFault::Of::gather, bad, plan.index, plan.count);
  }
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < plan.n * plan.size; i += step) {
    const std::int64_t row = plan.index[i / plan.size];
    if (row < 0 || row >= plan.count) continue;
    cuda::Pack<Out, width> result;
    cuda::apply_to_packs(f, result, rows[row * plan.size + i % plan.size]);
    out[i] = result;
  }
}

// Whether rows of `size` numbers can be moved as packs of `width`.
template <class In, class Out>
bool fits(std::int64_t size, const void* rows, const void* out, int width) {
  return size % width == 0 && cuda::is_aligned(static_cast<const In*>(rows), width) &&
         cuda::is_aligned(static_cast<const Out*>(out), width);
}

// `size`: of a row, in numbers of type In.
template <class In, class Out, int width, class F>
void gather(std::int64_t size, const Array& rows, const Array& index, const Array& out, F f,
            IndexFault* fault) {
  const GatherPlan plan{size / width, rows.dim(0), static_cast<const std::int64_t*>(index.raw()),
                        index.numel()};
  cuda::launch(gather_packs<In, Out, width, F>, cuda::blocks_for(plan.n * plan.size, threads), dim3(threads),
               plan, static_cast<const cuda::Pack<In, width>*>(rows.raw()),
               static_cast<cuda::Pack<Out, width>*>(out.raw()), f, fault);
}

}  // namespace

std::int64_t CudaBackend::gather_rows(const Array& rows, const Array& index, const Array& out) {
  const std::int64_t bytes = static_cast<std::int64_t>(rows.bytes()) / rows.dim(0);
  IndexFault* fault = cuda::fault_of(index_);
  const auto as = [&]<class Bits, int width>() {
    constexpr auto unit = static_cast<std::int64_t>(sizeof(Bits));
    if (bytes % unit != 0 || !fits<Bits, Bits>(bytes / unit, rows.raw(), out.raw(), width)) return false;
    gather<Bits, Bits, width>(bytes / unit, rows, index, out, Keep{}, fault);
    return true;
  };
  as.operator()<std::uint64_t, 2>() || as.operator()<std::uint64_t, 1>() ||
      as.operator()<std::uint32_t, 1>() || as.operator()<std::uint16_t, 1>() ||
      as.operator()<std::uint8_t, 1>();
  return -1;
}

std::int64_t CudaBackend::gather_normalized(const Array& rows, const Array& index, float mean, float std,
                                            const Array& out) {
  const std::int64_t size = rows.numel() / rows.dim(0);
  IndexFault* fault = cuda::fault_of(index_);
  const Normalize normalize{mean, std};
  if (fits<std::uint8_t, float>(size, rows.raw(), out.raw(), 4))
    gather<std::uint8_t, float, 4>(size, rows, index, out, normalize, fault);
  else gather<std::uint8_t, float, 1>(size, rows, index, out, normalize, fault);
  return -1;
}

}  // namespace tandem
