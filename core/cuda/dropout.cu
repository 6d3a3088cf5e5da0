#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/random/dropout_mask.h>
#include <tandem/core/cuda/launch.cuh>

namespace tandem {

namespace {

constexpr int threads = 256;

__global__ void write_key(std::uint64_t number, std::uint32_t* stored) {
  stored[0] = static_cast<std::uint32_t>(number);
  stored[1] = static_cast<std::uint32_t>(number >> 32);
}

// Each thread draws the four words of a counter, which serve four numbers. The key is `stored`, where that is given.
template <class T>
__global__ void drop(DropoutMask mask, const std::uint32_t* stored, std::int64_t count, const T* x, T* y) {
  if (stored) mask.key = stored[0] | static_cast<std::uint64_t>(stored[1]) << 32;
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

void CudaBackend::write_dropout_key(std::uint64_t number, const Array& stored) {
  cuda::launch(write_key, dim3(1), dim3(1), number, static_cast<std::uint32_t*>(stored.raw()));
}

void CudaBackend::dropout(const Array& x, const DropoutKey& key, double p, const Array& y) {
  const DropoutMask mask(key.number, p);
  const auto* stored = key.stored.defined() ? static_cast<const std::uint32_t*>(key.stored.raw()) : nullptr;
  dispatch_floating(x.dtype(), "dropout", [&](auto type) {
    using T = decltype(type);
    cuda::launch(drop<T>, cuda::blocks_for((x.numel() + 3) / 4, threads), dim3(threads), mask, stored, x.numel(),
                 static_cast<const T*>(x.raw()), static_cast<T*>(y.raw()));
  });
}

}  // namespace tandem
