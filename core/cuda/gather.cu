#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/array/index_walk.h>
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/faults.h>
#include <tandem/core/formulas/normalize.h>
#include <tandem/core/cuda/index_check.cuh>
#include <tandem/core/cuda/loops.cuh>

namespace tandem {

namespace {

constexpr int threads = 256;

// Rows and indices for a kernel. Each thread copies a pack of neighbouring numbers; `size` is the size of a row in
// packs.
struct GatherNest {
  std::int64_t size, count;
  const std::int64_t* index;
  std::int64_t n;
  const char* operation;  // the host's, as fault->operation
};

// The first block also checks that all indices name a row. One thread writes the note, about the first index that does
// not.
template <class In, class Out, int width, class F>
__global__ void gather_packs(GatherNest nest, const cuda::Pack<In, width>* rows, cuda::Pack<Out, width>* out, F f,
                             IndexFault* fault) {
  if (blockIdx.x == 0) {
    cuda::FirstPosition bad;
    for (std::int64_t i = threadIdx.x; i < nest.n; i += blockDim.x)
      if (nest.index[i] < 0 || nest.index[i] >= nest.count) bad.add(i);
    cuda::merge_block(bad);
    if (threadIdx.x == 0) cuda::note(fault, nest.operation, IndexFault::Kind::row, bad, nest.index, nest.count);
  }
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < nest.n * nest.size;
       i += step) {
    const std::int64_t row = nest.index[i / nest.size];
    if (row < 0 || row >= nest.count) continue;
    cuda::Pack<Out, width> result;
    cuda::apply_to_packs(f, result, rows[row * nest.size + i % nest.size]);
    out[i] = result;
  }
}

// Returns whether rows of `size` numbers can be moved as packs of `width`.
template <class In, class Out>
bool fits(std::int64_t size, const void* rows, const void* out, int width) {
  return size % width == 0 && cuda::is_aligned(static_cast<const In*>(rows), width) &&
         cuda::is_aligned(static_cast<const Out*>(out), width);
}

// `size` is the size of a row in numbers of type In.
template <class In, class Out, int width, class F>
void launch_rows(std::int64_t size, const Array& rows, const Array& index, const Array& out, F f, IndexFault* fault) {
  const GatherNest nest{size / width, rows.dim(0), static_cast<const std::int64_t*>(index.raw()), index.numel(),
                        "gather_rows"};
  cuda::launch(gather_packs<In, Out, width, F>, cuda::blocks_for(nest.n * nest.size, threads), dim3(threads), nest,
               static_cast<const cuda::Pack<In, width>*>(rows.raw()), static_cast<cuda::Pack<Out, width>*>(out.raw()),
               f, fault);
}

}  // namespace

std::int64_t CudaBackend::gather_rows(const Array& rows, const Array& index, const Array& out) {
  const std::int64_t bytes = static_cast<std::int64_t>(rows.bytes()) / rows.dim(0);
  IndexFault* fault = cuda::fault_of(index_);
  const auto as = [&]<class Bits, int width>() {
    constexpr auto unit = static_cast<std::int64_t>(sizeof(Bits));
    if (bytes % unit != 0 || !fits<Bits, Bits>(bytes / unit, rows.raw(), out.raw(), width)) return false;
    launch_rows<Bits, Bits, width>(bytes / unit, rows, index, out, Keep{}, fault);
    return true;
  };
  as.operator()<std::uint64_t, 2>() || as.operator()<std::uint64_t, 1>() || as.operator()<std::uint32_t, 1>() ||
      as.operator()<std::uint16_t, 1>() || as.operator()<std::uint8_t, 1>();
  return -1;
}

std::int64_t CudaBackend::gather_normalized(const Array& rows, const Array& index, float mean, float std,
                                            const Array& out) {
  const std::int64_t size = rows.numel() / rows.dim(0);
  IndexFault* fault = cuda::fault_of(index_);
  const Normalize normalize{mean, std};
  if (fits<std::uint8_t, float>(size, rows.raw(), out.raw(), 4))
    launch_rows<std::uint8_t, float, 4>(size, rows, index, out, normalize, fault);
  else launch_rows<std::uint8_t, float, 1>(size, rows, index, out, normalize, fault);
  return -1;
}

namespace {

// The sizes of x (outer, count, size), index (n) and y (outer, n, size). `size` is the size of a row in packs.
struct RowsNest {
  std::int64_t outer, n, size, count;
  const char* operation;
};

// One index for each row of packs.
template <class Bits, int width>
__global__ void gather_whole_rows(RowsNest nest, const cuda::Pack<Bits, width>* x, const std::int64_t* index,
                                  cuda::Pack<Bits, width>* y, IndexFault* fault) {
  const std::int64_t total = nest.outer * nest.n * nest.size;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += step) {
    const std::int64_t row = i / nest.size, position = row % nest.n, wanted = index[position];
    if (cuda::is_inside(wanted, nest.count)) y[i] = x[(row / nest.n * nest.count + wanted) * nest.size + i % nest.size];
    else cuda::note_any(fault, nest.operation, position, wanted, nest.count);
  }
}

// One index for each element. `nest` walks over x's first slice along the dimension, over index and over y.
template <class Bits>
__global__ void gather_elements(LoopNest<3> nest, std::int64_t numel, std::int64_t count, std::int64_t stride,
                                cuda::OperationName operation, const Bits* x, const std::int64_t* index, Bits* y,
                                IndexFault* fault) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < numel; i += step) {
    const auto offset = nest.offsets(i);
    const std::int64_t wanted = index[offset[1]];
    if (cuda::is_inside(wanted, count)) y[offset[2]] = x[offset[0] + wanted * stride];
    else cuda::note_any(fault, operation.text, offset[1], wanted, count);
  }
}

bool has_one_index_for_each_row(const Array& index, int dim) {
  for (int d = 0; d < index.ndim(); ++d)
    if (d != dim && index.shape()[d] != 1 && index.strides()[d] != 0) return false;
  return true;
}

template <class Bits>
void gather_bits(const Array& x, int dim, const Array& index, const char* operation, const Array& y,
                 IndexFault* fault) {
  const auto* wanted = static_cast<const std::int64_t*>(index.raw());
  if (x.is_contiguous() && y.is_contiguous() && has_one_index_for_each_row(index, dim)) {
    RowsNest nest{1, index.shape()[dim], 1, x.shape()[dim], operation};
    for (int d = 0; d < dim; ++d) nest.outer *= x.shape()[d];
    for (int d = dim + 1; d < x.ndim(); ++d) nest.size *= x.shape()[d];
    const auto as = [&]<int width>() {
      if (!fits<Bits, Bits>(nest.size, x.raw(), y.raw(), width)) return false;
      nest.size /= width;
      cuda::launch(gather_whole_rows<Bits, width>, cuda::blocks_for(nest.outer * nest.n * nest.size, threads),
                   dim3(threads), nest, static_cast<const cuda::Pack<Bits, width>*>(x.raw()), wanted,
                   static_cast<cuda::Pack<Bits, width>*>(y.raw()), fault);
      return true;
    };
    constexpr int most = static_cast<int>(16 / sizeof(Bits));
    as.template operator()<most>() || as.template operator()<1>();
    return;
  }
  const Array base = repeated_along(x, dim, y.shape());
  cuda::launch(gather_elements<Bits>, cuda::blocks_for(y.numel(), threads), dim3(threads),
               LoopNest<3>({&base, &index, &y}), y.numel(), x.shape()[dim], x.strides()[dim],
               cuda::OperationName{operation}, static_cast<const Bits*>(x.raw()), wanted, static_cast<Bits*>(y.raw()),
               fault);
}

}  // namespace

std::int64_t CudaBackend::gather(const Array& x, int dim, const Array& index, const char* operation, const Array& y) {
  IndexFault* fault = cuda::fault_of(index_);
  dispatch_bits(x.dtype(), [&](auto bits) { gather_bits<decltype(bits)>(x, dim, index, operation, y, fault); });
  return -1;
}

}  // namespace tandem
