// Divides images (N, C, H, W) with channels last among threads. Each thread takes the same few neighbouring channels of
// several rows, so the numbers that belong to these channels stay in registers. A row is one pixel of an image, with
// all its channels.
#pragma once

#include <tandem/core/cuda/loops.cuh>

#include <algorithm>

namespace tandem::cuda {

// `lanes` neighbouring numbers, in the type used for computation.
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

// Calls f with the number of neighbours that a thread takes, as a constant: 16 bytes of them, or one if the number of
// channels or the address of an array does not allow 16 bytes.
template <class T, class F, class... Arrays>
void with_lanes(std::int64_t channels, F f, const Arrays&... arrays) {
  constexpr int lanes = static_cast<int>(16 / sizeof(T));
  if (channels % lanes == 0 && (is_aligned(static_cast<const T*>(arrays.raw()), lanes) && ...))
    f(std::integral_constant<int, lanes>{});
  else f(std::integral_constant<int, 1>{});
}

// Divides rows and columns among blocks of threads. A column is `lanes` channels. A block covers some columns, and at
// any time as many rows as it has threads for. The blocks of the same columns share the rows, and step down until they
// have covered all of them (ChannelPlace). A block is up to 128 bytes wide, which memory delivers at once. blockIdx.y
// says which columns it covers.
struct ChannelTiles {
  static constexpr int threads = 256;
  static constexpr std::int64_t most_tiles = 4096;  // blocks side by side; each has counters (block_tree.cuh)
  dim3 grid, block;

  // Makes enough blocks for each thread to process `rows_each` rows. If that would be more than `most` blocks, a thread
  // processes more rows.
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

// This thread's first channel and first row, and the distance to its next row. `blocks` share the rows.
struct ChannelPlace {
  std::int64_t channel, row, step;
  __device__ explicit ChannelPlace(int lanes, unsigned blocks = gridDim.x)
      : channel((static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * lanes),
        row(static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y),
        step(static_cast<std::int64_t>(blocks) * blockDim.y) {}
};

// A few rows of a thread, in their stored dtype. Loading several rows before the first is used keeps the memory busy.
// 16-bit numbers stay unconverted, because in f32 they take twice as many registers.
inline constexpr int row_batch = 4;
template <class T, int lanes>
struct RowBatch {
  Pack<T, lanes> rows[row_batch];
  __device__ compute_t<T> operator()(int row, int lane) const {
    return static_cast<compute_t<T>>(rows[row].values[lane]);
  }
};

// The thread's rows from `row` on, with 0 for those that do not exist.
template <int lanes, class T>
__device__ RowBatch<T, lanes> load_rows(const T* from, const ChannelPlace& at, std::int64_t row, std::int64_t rows,
                                        std::int64_t channels) {
  RowBatch<T, lanes> batch{};
  for (int u = 0; u < row_batch; ++u)
    if (row + u * at.step < rows)
      batch.rows[u] = *reinterpret_cast<const Pack<T, lanes>*>(from + (row + u * at.step) * channels + at.channel);
  return batch;
}
template <int lanes, class T>
__device__ void store_rows(T* to, const ChannelPlace& at, std::int64_t row, std::int64_t rows, std::int64_t channels,
                           const RowBatch<T, lanes>& batch) {
  for (int u = 0; u < row_batch; ++u)
    if (row + u * at.step < rows)
      *reinterpret_cast<Pack<T, lanes>*>(to + (row + u * at.step) * channels + at.channel) = batch.rows[u];
}

// The sizes of images and of the pooled images.
struct PooledSizes {
  std::int64_t images, channels, height, width, out_h, out_w;
};

}  // namespace tandem::cuda
