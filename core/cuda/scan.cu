#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/formulas/scans.h>
#include <tandem/core/cuda/launch.cuh>

namespace tandem {

namespace {

constexpr int threads = 256;

// The lines along one dimension. The step along a line may be negative. The other dimensions say where each line
// begins.
struct ScanNest {
  Shape shape;
  Strides x_strides, y_strides;
  std::int64_t lines, n, x_step, y_step, x_first, y_first;
  TANDEM_HOST_DEVICE void begin(std::int64_t line, std::int64_t& x, std::int64_t& y) const {
    x = x_first;
    y = y_first;
    for (int d = shape.ndim() - 1; d >= 0; --d) {
      const std::int64_t i = line % shape.begin()[d];
      line /= shape.begin()[d];
      x += i * x_strides.begin()[d];
      y += i * y_strides.begin()[d];
    }
  }
};

// Each thread scans one line. Used for lines of up to 64 numbers, and for at least 4096 lines whose numbers are not
// adjacent in memory.
template <class Scanned, class T, class Out>
__global__ void scan_by_threads(ScanNest nest, const T* x, Out* y) {
  const Scanned scan{};
  const std::int64_t line = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (line >= nest.lines) return;
  std::int64_t from, to;
  nest.begin(line, from, to);
  auto total = scan.template first<wide_t<T>>();
  for (std::int64_t i = 0; i < nest.n; ++i, from += nest.x_step, to += nest.y_step) {
    total = scan(total, static_cast<wide_t<T>>(static_cast<compute_t<T>>(x[from])));
    y[to] = static_cast<Out>(static_cast<compute_t<Out>>(total));
  }
}

// A block takes each line, and a thread each element of a piece of it.
template <class Scanned, class T, class Out>
__global__ void scan_by_blocks(ScanNest nest, const T* x, Out* y) {
  using Total = wide_t<T>;
  const Scanned scan{};
  const Total nothing = scan.template first<Total>();
  constexpr int warps = threads / 32;
  TANDEM_SHARED(of_warp, warps, Total);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  std::int64_t from, to;
  nest.begin(blockIdx.x, from, to);
  Total before = nothing;  // the result of the pieces so far
  for (std::int64_t first = 0; first < nest.n; first += threads) {
    const std::int64_t i = first + threadIdx.x;
    Total total = i < nest.n ? static_cast<Total>(static_cast<compute_t<T>>(x[from + i * nest.x_step])) : nothing;
    for (int d = 1; d < 32; d *= 2) {
      const Total other = __shfl_sync(0xffffffffu, total, lane >= d ? lane - d : lane);
      if (lane >= d) total = scan(other, total);
    }
    if (lane == 31) of_warp[warp] = total;
    __syncthreads();
    Total piece = nothing;
    for (int w = 0; w < warps; ++w) {
      if (w == warp) total = scan(piece, total);
      piece = scan(piece, of_warp[w]);
    }
    if (i < nest.n) y[to + i * nest.y_step] = static_cast<Out>(static_cast<compute_t<Out>>(scan(before, total)));
    before = scan(before, piece);
    __syncthreads();
  }
}

}  // namespace

void CudaBackend::scan(Scan op, const Array& x, int dim, bool reversed, const Array& y) {
  const std::int64_t n = x.shape()[dim], direction = reversed ? -1 : 1;
  ScanNest nest{{}, {}, {}, x.numel() / n, n, direction * x.strides()[dim], direction * y.strides()[dim], 0, 0};
  if (reversed) {
    nest.x_first = (n - 1) * x.strides()[dim];
    nest.y_first = (n - 1) * y.strides()[dim];
  }
  for (int i = 0; i < x.ndim(); ++i) {
    if (i == dim) continue;
    nest.shape.push_back(x.shape()[i]);
    nest.x_strides.push_back(x.strides()[i]);
    nest.y_strides.push_back(y.strides()[i]);
  }
  const bool by_blocks = n > 64 && (nest.lines < 4096 || x.strides()[dim] == 1);
  const auto run = [&](auto in_type, auto out_type, auto scanned) {
    using T = decltype(in_type);
    using Out = decltype(out_type);
    using Scanned = decltype(scanned);
    const auto blocks = static_cast<unsigned>(by_blocks ? nest.lines : (nest.lines + threads - 1) / threads);
    cuda::launch(by_blocks ? scan_by_blocks<Scanned, T, Out> : scan_by_threads<Scanned, T, Out>, dim3(blocks),
                 dim3(threads), nest, static_cast<const T*>(x.raw()), static_cast<Out*>(y.raw()));
  };
  dispatch(x.dtype(), [&](auto type) {
    using T = decltype(type);
    using Out = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
    if (op == Scan::sum) run(type, Out{}, scans::Sum{});
    else run(type, Out{}, scans::Product{});
  });
}

}  // namespace tandem
