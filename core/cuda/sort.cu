// Sorts rows of any length. First, blocks sort tiles of the rows in shared memory. Then sorted runs are merged in
// rounds, each of which doubles their length. In a merge, every thread looks up the place of its record.
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/formulas/sort_keys.h>
#include <tandem/core/cuda/launch.cuh>

#include <utility>

namespace tandem {

namespace {

constexpr int threads = 256;
constexpr std::int64_t largest_tile = 1024;

// A block sorts every gridDim.x-th tile by a bitonic sort. A tile has `size` records, a power of two. There are `all`
// tiles, and a row of n numbers has `tiles` of them. Places after the end of a row hold records that come after all
// others.
template <class T, class Record>
__global__ void sort_tiles(const T* x, std::int64_t n, std::int64_t tiles, std::int64_t all, int size, bool descending,
                           Record* records) {
  TANDEM_SHARED(tile, largest_tile, Record);
  for (std::int64_t number = blockIdx.x; number < all; number += gridDim.x) {
    const std::int64_t row = number / tiles, first = number % tiles * size;
    for (int i = threadIdx.x; i < size; i += threads) {
      const std::int64_t at = first + i;
      tile[i] =
          at < n ? Record::of(sort_key(x[row * n + at], descending), at) : Record::of(~std::uint64_t{0}, INT64_MAX);
    }
    __syncthreads();
    for (int run = 2; run <= size; run *= 2) {
      for (int step = run / 2; step > 0; step /= 2) {
        for (int i = threadIdx.x; i < size / 2; i += threads) {
          const int a = i / step * 2 * step + i % step, b = a + step;
          const bool ascends = (a & run) == 0;
          const Record low = tile[a], high = tile[b];
          if (high < low ? ascends : !ascends) {
            tile[a] = high;
            tile[b] = low;
          }
        }
        __syncthreads();
      }
    }
    for (int i = threadIdx.x; i < size; i += threads)
      if (first + i < n) records[row * n + first + i] = tile[i];
    __syncthreads();
  }
}

// The number of sorted records that come before `record`.
template <class Record>
TANDEM_HOST_DEVICE std::int64_t place_among(const Record* records, std::int64_t n, const Record& record) {
  std::int64_t low = 0;
  while (n > 0) {
    const std::int64_t half = n / 2;
    if (records[low + half] < record) {
      low += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  return low;
}

// Merges neighbouring runs of `width` records in each row of n.
template <class Record>
__global__ void merge_runs(const Record* from, std::int64_t n, std::int64_t all, std::int64_t width, Record* to) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < all; i += step) {
    const std::int64_t in_row = i % n, begin = in_row / (2 * width) * 2 * width;
    const std::int64_t middle = begin + width < n ? begin + width : n;
    const std::int64_t end = middle + width < n ? middle + width : n;
    const Record* row = from + (i - in_row);
    const Record record = row[in_row];
    const std::int64_t place = in_row < middle
                                   ? in_row + place_among(row + middle, end - middle, record)
                                   : begin + in_row - middle + place_among(row + begin, middle - begin, record);
    to[i - in_row + place] = record;
  }
}

template <class T, class Record>
__global__ void write_first(const Record* records, const T* x, std::int64_t n, std::int64_t k, std::int64_t all,
                            T* values, std::int64_t* indices) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < all; i += step) {
    const std::int64_t row = i / k, at = records[row * n + i % k].index();
    values[i] = x[row * n + at];
    indices[i] = at;
  }
}

}  // namespace

void CudaBackend::sort(const Array& x, bool descending, std::int64_t k, const Array& values, const Array& indices) {
  const std::int64_t rows = x.dim(0), n = x.dim(1), all = rows * n;
  dispatch_sort(x.dtype(), n, [&](auto type, auto kind) {
    using T = decltype(type);
    using Record = decltype(kind);
    int size = 2;
    while (size < largest_tile && size < n) size *= 2;
    const std::int64_t tiles = (n + size - 1) / size;
    const std::int64_t bytes = all * static_cast<std::int64_t>(sizeof(Record));
    const Array first = Array::empty({bytes}, DType::u8, x.device());
    const Array second = tiles > 1 ? Array::empty({bytes}, DType::u8, x.device()) : first;
    const T* in = static_cast<const T*>(x.raw());
    Record* from = static_cast<Record*>(first.raw());
    Record* to = static_cast<Record*>(second.raw());
    cuda::launch(sort_tiles<T, Record>, cuda::blocks_for(rows * tiles, 1), dim3(threads), in, n, tiles, rows * tiles,
                 size, descending, from);
    for (std::int64_t width = size; width < n; width *= 2) {
      cuda::launch(merge_runs<Record>, cuda::blocks_for(all, threads), dim3(threads), from, n, all, width, to);
      std::swap(from, to);
    }
    cuda::launch(write_first<T, Record>, cuda::blocks_for(rows * k, threads), dim3(threads), from, in, n, k, rows * k,
                 static_cast<T*>(values.raw()), static_cast<std::int64_t*>(indices.raw()));
  });
}

}  // namespace tandem
