#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/random/dropout_mask.h>
#include <tandem/core/cuda/launch.cuh>

namespace tandem {

namespace {

constexpr int threads = 256;

// Each thread draws the four words of a counter, which serve four numbers.
template <class T>
__global__ void drop(DropoutMask mask, std::int64_t count, const T* x, T* y) {
  using C = compute_t<T>;
  constexpr std::int64_t lanes = DropoutMask::lanes, block = DropoutMask::block;
  const std::int64_t counters = (count + block - 1) / block * lanes;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; c < counters; c += step) {
    std::uint32_t words[4] = {static_cast<std::uint32_t>(c), static_cast<std::uint32_t>(c >> 32), 0, 0};
    philox_rounds(words, mask.key);
    for (int k = 0; k < 4; ++k) {
      const std::int64_t i = c / lanes * block + k * lanes + c % lanes;
      if (i >= count) continue;
      const C kept = static_cast<C>(x[i]) * static_cast<C>(mask.scale);
      y[i] = static_cast<T>(mask.keeps(words[k]) ? kept : C(0));
    }
  }
}

}  // namespace

void CudaBackend::dropout(const Array& x, std::uint64_t key, double p, const Array& y) {
  const DropoutMask mask(key, p);
  dispatch_floating(x.dtype(), "dropout", [&](auto type) {
    using T = decltype(type);
    cuda::launch(drop<T>, cuda::blocks_for((x.numel() + 3) / 4, threads), dim3(threads), mask, x.numel(),
                 static_cast<const T*>(x.raw()), static_cast<T*>(y.raw()));
  });
}

}  // namespace tandem
