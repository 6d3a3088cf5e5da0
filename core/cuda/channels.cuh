// How threads share images with channels last: each takes the same few neighbouring channels of some rows, so that what
// it knows about these channels stays in registers. A row is what lies at one place of an image: its channels.
#pragma once

#include <tandem/core/cuda/loops.cuh>

#include <algorithm>

namespace tandem::cuda {

// A few neighbours, as many as there are lanes, in the type that is computed in.
template <class C, int lanes>
struct Numbers {
  C values[lanes];
  TANDEM_HOST_DEVICE C& operator[](int j) { return values[j]; }
  TANDEM_HOST_DEVICE const C& operator[](int j) const { return values[j]; }
};

template <int lanes, class T>
__device__ Numbers<compute_t<T>, lanes> load(const T* from) {
  const auto pack = *reinterpret_cast<const Pack<T, lanes>*>(from);
  Numbers<compute_t<T>, lanes> numbers;
  for (int j = 0; j < lanes; ++j) numbers[j] = static_cast<compute_t<T>>(pack.values[j]);
  return numbers;
}

template <int lanes, class T>
__device__ void store(T* to, const Numbers<compute_t<T>, lanes>& numbers) {
  Pack<T, lanes> pack;
  for (int j = 0; j < lanes; ++j) pack.values[j] = static_cast<T>(numbers[j]);
  *reinterpret_cast<Pack<T, lanes>*>(to) = pack;
}

// Calls f with the number of neighbours that a thread takes, as a constant: 16 bytes of them, or one where the channels
// or an array's place in memory don't divide so.
template <class T, class F, class... Arrays>
void with_lanes(std::int64_t channels, F f, const Arrays&... arrays) {
  constexpr int lanes = static_cast<int>(16 / sizeof(T));
  if (channels % lanes == 0 && (is_aligned(static_cast<const T*>(arrays.raw()), lanes) && ...))
    f(std::integral_constant<int, lanes>{});
  else f(std::integral_constant<int, 1>{});
}

// Blocks of threads for some columns, `lanes` channels each, by as many rows as that leaves, walking down over all
// rows. A block is up to 128 bytes wide, which memory gives at once; blockIdx.y says which of them.
struct ChannelTiles {
  static constexpr int threads = 256;
  static constexpr std::int64_t most_tiles = 4096;
  dim3 grid, block;

  // For a thread to do `rows_each` rows or, once there are `most` blocks, more.
  ChannelTiles(std::int64_t rows, std::int64_t channels, int lanes, std::size_t element_bytes, int rows_each,
               std::int64_t most) {
    const std::int64_t packs = channels / lanes, widest = 128 / (lanes * static_cast<std::int64_t>(element_bytes));
    const std::int64_t tiles = (packs + widest - 1) / widest;
    TANDEM_CHECK(tiles <= most_tiles, "an image has ", channels, " channels, which is more than the ",
                 most_tiles * widest * lanes, " that these kernels are made for");
    const std::int64_t columns = (packs + tiles - 1) / tiles, lines = threads / columns;
    const std::int64_t blocks = (rows + lines * rows_each - 1) / (lines * rows_each);
    grid = dim3(static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, std::max<std::int64_t>(1, most / tiles))),
                static_cast<unsigned>(tiles));
    block = dim3(static_cast<unsigned>(columns), static_cast<unsigned>(lines));
  }
};

// This thread's first channel and row, and how far it is to its next row.
struct ChannelPlace {
  std::int64_t channel, row, step;
  __device__ explicit ChannelPlace(int lanes)
      : channel((static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * lanes),
        row(static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y),
        step(static_cast<std::int64_t>(gridDim.x) * blockDim.y) {}
};

// Sizes of an image and of what pooling makes of it.
struct PooledSizes {
  std::int64_t images, channels, height, width, out_h, out_w;
};

}  // namespace tandem::cuda
