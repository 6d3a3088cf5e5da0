// Batch normalisation, fused with ReLU and 2 x 2 max pooling. core/formulas/batch_norm.h begins with the formulas of
// all phases, forward and backward. The speed of these kernels is limited by memory and, for small batches, by the
// number of kernels. Each phase is therefore one kernel, which reads the activations once.
//
// Images are (N, C, H, W), channels last. A row is a pixel, with its C channels adjacent in memory.
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/formulas/batch_norm.h>
#include <tandem/core/cuda/channel_sums.cuh>

namespace tandem {

namespace {

using cuda::ChannelPlace;
using cuda::ChannelTiles;
using cuda::load;
using cuda::Numbers;
using cuda::row_batch;
using cuda::store;

constexpr std::int64_t most_blocks = 8 * cuda::multiprocessors;

// BatchNormAffine for kernels: pointers into device memory.
template <class C>
struct AffinePointers {
  const C *mean, *invstd, *weight, *bias;
  explicit AffinePointers(const BatchNormAffine& affine)
      : mean(static_cast<const C*>(affine.mean.raw())),
        invstd(static_cast<const C*>(affine.invstd.raw())),
        weight(static_cast<const C*>(affine.weight.raw())),
        bias(static_cast<const C*>(affine.bias.raw())) {}
};

// What a thread needs for each channel, in the type that it computes in: y = x * scale + shift.
template <class C, int lanes>
struct Coefficients {
  Numbers<C, lanes> scale, shift, mean;
  __device__ Coefficients(const AffinePointers<C>& affine, std::int64_t c) {
    for (int j = 0; j < lanes; ++j) {
      mean[j] = affine.mean[c + j];
      scale[j] = affine.weight[c + j] * affine.invstd[c + j];
      shift[j] = affine.bias[c + j] - mean[j] * scale[j];
    }
  }
};

// The mean of some rows, and the sum of squared deviations from it. merge() is from Chan, Golub, LeVeque, "Updating
// formulae and a pairwise algorithm for computing sample variances", 1979.
template <class C, int lanes>
struct Moments {
  using Channel = Moments<C, 1>;
  using Whole = Moments<double, 1>;
  C count{};
  Numbers<C, lanes> mean{}, m2{};

  template <class D>
  __device__ void merge(const Moments<D, lanes>& other) {
    if (other.count == 0) return;
    const C total = count + other.count;
    const C weight = static_cast<D>(other.count) / static_cast<D>(total);
    for (int j = 0; j < lanes; ++j) {
      const C delta = other.mean[j] - mean[j];
      const C step = delta * weight;
      mean[j] += step;
      m2[j] += other.m2[j] + step * count * delta;
    }
    count = total;
  }
  __device__ Channel channel(int j) const { return {count, {mean[j]}, {m2[j]}}; }
};

// dy_xhat is the sum of dy * (x - mean). WriteGradSums multiplies it by invstd at the end.
template <class C, int lanes>
struct GradSums {
  using Channel = GradSums<C, 1>;
  using Whole = GradSums<double, 1>;
  Numbers<C, lanes> dy{}, dy_xhat{};

  template <class D>
  __device__ void merge(const GradSums<D, lanes>& other) {
    for (int j = 0; j < lanes; ++j) {
      dy[j] += other.dy[j];
      dy_xhat[j] += other.dy_xhat[j];
    }
  }
  __device__ Channel channel(int j) const { return {{dy[j]}, {dy_xhat[j]}}; }
};

template <class T, int lanes>
struct MomentsOfRows {
  static constexpr int lanes_of_thread = lanes, at_once = 3;
  using C = compute_t<T>;
  const T* x;
  __device__ Moments<C, lanes> operator()(const ChannelPlace& at, std::int64_t rows, std::int64_t channels) const {
    // Sums the differences from the thread's first row, and their squares. The mean may be far from 0, but compared
    // with the differences between rows, it is close to each row.
    Numbers<C, lanes> shift{}, sum{}, squares{};
    int count = 0;
    for (std::int64_t row = at.row; row < rows; row += row_batch * at.step) {
      const auto v = cuda::load_rows<lanes>(x, at, row, rows, channels);
      if (count == 0)
        for (int j = 0; j < lanes; ++j) shift[j] = v(0, j);
      for (int u = 0; u < row_batch; ++u) {
        if (row + u * at.step >= rows) continue;
        ++count;
        for (int j = 0; j < lanes; ++j) {
          const C d = v(u, j) - shift[j];
          sum[j] += d;
          squares[j] += d * d;
        }
      }
    }
    Moments<C, lanes> all;
    all.count = static_cast<C>(count);
    if (count == 0) return all;
    for (int j = 0; j < lanes; ++j) {
      const C mean = sum[j] / all.count, m2 = squares[j] - sum[j] * mean;
      all.mean[j] = shift[j] + mean;
      all.m2[j] = m2 < 0 ? 0 : m2;  // keeps NaN
    }
    return all;
  }
};

template <class C>
struct WriteMoments {
  C *mean, *m2, *count;
  bool updates;
  BatchNormTracker<C> track;
  __device__ void operator()(std::int64_t c, const Moments<double, 1>& whole) const {
    mean[c] = static_cast<C>(whole.mean[0]);
    m2[c] = static_cast<C>(whole.m2[0]);
    if (c == 0) *count = static_cast<C>(whole.count);
    if (updates) track(c, mean[c], m2[c], static_cast<C>(whole.count));
  }
};

// Merges the moments that all ranks have sent, a thread for each channel.
template <class C>
__global__ void combine_statistics(BatchNormParts<C> parts, C* mean, C* m2, C* count, BatchNormTracker<C> track) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c < parts.channels) parts.combine(c, mean, m2, count, track);
}

template <class T, int lanes>
struct GradSumsOfRows {
  static constexpr int lanes_of_thread = lanes, at_once = lanes > 4 ? 2 : 3;  // what the registers allow
  using C = compute_t<T>;
  const T *x, *grad_y;
  AffinePointers<C> affine;
  bool relu;
  const T* last_y;  // the output of a ReLU after the whole, or null
  T* last_grad;     // takes the gradient before that ReLU; it may be grad_y
  __device__ GradSums<C, lanes> operator()(const ChannelPlace& at, std::int64_t rows, std::int64_t channels) const {
    const Coefficients<C, lanes> k(affine, at.channel);
    GradSums<C, lanes> sums;
    for (std::int64_t row = at.row; row < rows; row += row_batch * at.step) {
      const auto v = cuda::load_rows<lanes>(x, at, row, rows, channels);
      auto grad = cuda::load_rows<lanes>(grad_y, at, row, rows, channels);
      if (last_y) {
        const auto y = cuda::load_rows<lanes>(last_y, at, row, rows, channels);
        for (int u = 0; u < row_batch; ++u)
          for (int j = 0; j < lanes; ++j)
            if (y(u, j) <= 0) grad.rows[u].values[j] = T{};  // keeps NaN, as functors::Relu
        cuda::store_rows(last_grad, at, row, rows, channels, grad);
      }
      for (int u = 0; u < row_batch; ++u)
        for (int j = 0; j < lanes; ++j) {
          const C x_uj = v(u, j);
          const C g = !relu || x_uj * k.scale[j] + k.shift[j] > 0 ? grad(u, j) : C{};
          sums.dy[j] += g;
          sums.dy_xhat[j] += g * (x_uj - k.mean[j]);
        }
    }
    return sums;
  }
};

template <class C>
struct WriteGradSums {
  const C* invstd;
  C *sum_dy, *sum_dy_xhat;
  __device__ void operator()(std::int64_t c, const GradSums<double, 1>& whole) const {
    sum_dy[c] = static_cast<C>(whole.dy[0]);
    sum_dy_xhat[c] = static_cast<C>(whole.dy_xhat[0] * invstd[c]);
  }
};

// The value in `index` if ReLU zeroed the maximum: no element of that window gets a gradient.
constexpr int no_place = 255;

template <int lanes>
using Places = cuda::Pack<std::uint8_t, lanes>;

// Here, and in grad_of_normalise, a thread loads a row at a time: on an H200 that was faster than several.
template <class T, int lanes>
__global__ void normalise(std::int64_t rows, std::int64_t channels, const T* x, AffinePointers<compute_t<T>> affine,
                          const T* addend, bool relu, T* y) {
  const ChannelPlace at(lanes);
  if (at.channel >= channels) return;
  const Coefficients<compute_t<T>, lanes> k(affine, at.channel);
  for (std::int64_t row = at.row; row < rows; row += at.step) {
    auto v = load<lanes>(x + row * channels + at.channel);
    Numbers<compute_t<T>, lanes> more{};
    if (addend) more = load<lanes>(addend + row * channels + at.channel);
    for (int j = 0; j < lanes; ++j) {
      v[j] = v[j] * k.scale[j] + k.shift[j] + more[j];
      if (relu && v[j] < 0) v[j] = 0;
    }
    store<lanes>(y + row * channels + at.channel, v);
  }
}

// A thread takes a window. Its maximum is chosen after the normalisation, whose factor may be negative.
template <class T, int lanes>
__global__ void normalise_and_pool(cuda::PooledSizes size, const T* x, AffinePointers<compute_t<T>> affine, bool relu,
                                   T* y, T* selected, std::uint8_t* index) {
  using C = compute_t<T>;
  const ChannelPlace at(lanes);
  if (at.channel >= size.channels) return;
  const Coefficients<C, lanes> k(affine, at.channel);
  const std::int64_t outputs = size.images * size.out_h * size.out_w;
  for (std::int64_t o = at.row; o < outputs; o += at.step) {
    const std::int64_t top = o / (size.out_h * size.out_w) * size.height + o / size.out_w % size.out_h * 2;
    const T* window = x + (top * size.width + o % size.out_w * 2) * size.channels + at.channel;
    auto best_x = load<lanes>(window);
    Numbers<C, lanes> best;
    Places<lanes> where{};
    for (int j = 0; j < lanes; ++j) best[j] = best_x[j] * k.scale[j] + k.shift[j];
    for (int i = 1; i < 4; ++i) {
      const auto candidate_x = load<lanes>(window + (i / 2 * size.width + i % 2) * size.channels);
      for (int j = 0; j < lanes; ++j) {
        const C candidate = candidate_x[j] * k.scale[j] + k.shift[j];
        if (!(candidate > best[j] || candidate != candidate)) continue;
        best[j] = candidate;
        best_x[j] = candidate_x[j];
        where.values[j] = static_cast<std::uint8_t>(i);
      }
    }
    for (int j = 0; relu && j < lanes; ++j) {
      if (!(best[j] > 0)) where.values[j] = no_place;
      if (best[j] < 0) best[j] = 0;
    }
    const std::int64_t to = o * size.channels + at.channel;
    store<lanes>(y + to, best);
    store<lanes>(selected + to, best_x);
    *reinterpret_cast<Places<lanes>*>(index + to) = where;
  }
}

// The sums and the count of all ranks that share statistics. If `count` is null, the statistics do not depend on x.
template <class C>
struct SumPointers {
  const C *dy, *dy_xhat, *count;
};

// grad_x = scale * (dy - mean_dy - xhat * mean_dy_xhat), where scale = weight * invstd (the formula of
// core/formulas/batch_norm.h). A thread computes it as dy * scale + x * slope + offset.
template <class C, int lanes>
struct GradCoefficients : Coefficients<C, lanes> {
  Numbers<C, lanes> slope, offset;
  __device__ GradCoefficients(const AffinePointers<C>& affine, const SumPointers<C>& sums, std::int64_t c)
      : Coefficients<C, lanes>(affine, c) {
    for (int j = 0; j < lanes; ++j) {
      slope[j] = offset[j] = 0;
      if (!sums.count) continue;
      slope[j] = -this->scale[j] * affine.invstd[c + j] * (sums.dy_xhat[c + j] / *sums.count);
      offset[j] = -this->scale[j] * (sums.dy[c + j] / *sums.count) - slope[j] * this->mean[j];
    }
  }
};

template <class T, int lanes>
__global__ void grad_of_normalise(std::int64_t rows, std::int64_t channels, const T* x,
                                  AffinePointers<compute_t<T>> affine, bool relu, const T* grad_y,
                                  SumPointers<compute_t<T>> sums, T* grad_x) {
  const ChannelPlace at(lanes);
  if (at.channel >= channels) return;
  const GradCoefficients<compute_t<T>, lanes> k(affine, sums, at.channel);
  for (std::int64_t row = at.row; row < rows; row += at.step) {
    const auto v = load<lanes>(x + row * channels + at.channel);
    auto grad = load<lanes>(grad_y + row * channels + at.channel);
    for (int j = 0; j < lanes; ++j) {
      if (relu && !(v[j] * k.scale[j] + k.shift[j] > 0)) grad[j] = 0;
      grad[j] = grad[j] * k.scale[j] + (v[j] * k.slope[j] + k.offset[j]);
    }
    store<lanes>(grad_x + row * channels + at.channel, grad);
  }
}

// A thread takes the 2 x 2 elements of a window. When the height or width is odd, it also takes the elements of the
// last row or column, which are in no window.
template <class T, int lanes>
__global__ void grad_of_normalise_and_pool(cuda::PooledSizes size, const T* x, AffinePointers<compute_t<T>> affine,
                                           const T* grad_y, const std::uint8_t* index, SumPointers<compute_t<T>> sums,
                                           T* grad_x) {
  using C = compute_t<T>;
  const ChannelPlace at(lanes);
  if (at.channel >= size.channels) return;
  const GradCoefficients<C, lanes> k(affine, sums, at.channel);
  const std::int64_t squares_h = (size.height + 1) / 2, squares_w = (size.width + 1) / 2;
  const std::int64_t squares = size.images * squares_h * squares_w;
  for (std::int64_t s = at.row; s < squares; s += at.step) {
    const std::int64_t image = s / (squares_h * squares_w), oh = s / squares_w % squares_h, ow = s % squares_w;
    const bool is_window = oh < size.out_h && ow < size.out_w;
    Numbers<C, lanes> dy{};
    Places<lanes> where{};
    if (is_window) {
      const std::int64_t from = ((image * size.out_h + oh) * size.out_w + ow) * size.channels + at.channel;
      dy = load<lanes>(grad_y + from);
      where = *reinterpret_cast<const Places<lanes>*>(index + from);
    }
    // All four elements are loaded before the first is written, because grad_x may be x.
    Numbers<C, lanes> v[4];
    const auto exists = [&](int i) { return 2 * oh + i / 2 < size.height && 2 * ow + i % 2 < size.width; };
    const std::int64_t first = ((image * size.height + 2 * oh) * size.width + 2 * ow) * size.channels + at.channel;
    const auto offset = [&](int i) { return first + (i / 2 * size.width + i % 2) * size.channels; };
    for (int i = 0; i < 4; ++i)
      if (exists(i)) v[i] = load<lanes>(x + offset(i));
    for (int i = 0; i < 4; ++i) {
      if (!exists(i)) continue;
      for (int j = 0; j < lanes; ++j) {
        v[i][j] = v[i][j] * k.slope[j] + k.offset[j];
        if (is_window && where.values[j] == i) v[i][j] += dy[j] * k.scale[j];
      }
      store<lanes>(grad_x + offset(i), v[i]);
    }
  }
}

template <class T>
const T* in(const Array& array) {
  return static_cast<const T*>(array.raw());
}
template <class T>
T* out(const Array& array) {
  return static_cast<T*>(array.raw());
}

}  // namespace

void CudaBackend::batch_norm_stats(const Array& x, const Array& mean, const Array& m2, const Array& count,
                                   const BatchNormUpdate* update) {
  dispatch_floating(x.dtype(), "batch_norm", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    WriteMoments<C> write{out<C>(mean), out<C>(m2), out<C>(count), update != nullptr, {}};
    if (update) write.track = BatchNormTracker<C>(*update);
    cuda::with_lanes<T>(
        x.dim(1),
        [&](auto lanes) {
          constexpr int L = lanes;
          cuda::sum_over_rows<Moments<C, L>>(x, MomentsOfRows<T, L>{in<T>(x)}, write);
        },
        x);
  });
}

void CudaBackend::batch_norm_combine(const Array& parts, const Array& mean, const Array& m2, const Array& count,
                                     const BatchNormUpdate& update) {
  dispatch_floating(mean.dtype(), "batch_norm", [&](auto type) {
    using C = compute_t<decltype(type)>;
    const std::int64_t channels = mean.numel();
    const dim3 blocks(static_cast<unsigned>((channels + ChannelTiles::threads - 1) / ChannelTiles::threads));
    cuda::launch(combine_statistics<C>, blocks, dim3(ChannelTiles::threads),
                 BatchNormParts<C>{in<C>(parts), parts.dim(0), channels}, out<C>(mean), out<C>(m2), out<C>(count),
                 BatchNormTracker<C>(update));
  });
}

void CudaBackend::batch_norm_apply(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                   const Array* addend, const Array& y, const Array& selected, const Array& index) {
  const std::int64_t channels = x.dim(1);
  dispatch_floating(x.dtype(), "batch_norm", [&](auto type) {
    using T = decltype(type);
    const AffinePointers<compute_t<T>> k(affine);
    if (!fusion.max_pool_2x2) {
      cuda::with_lanes<T>(
          channels,
          [&](auto lanes) {
            constexpr int L = lanes;
            const std::int64_t rows = x.dim(0) * x.dim(2) * x.dim(3);
            const ChannelTiles tiles(rows, channels, L, sizeof(T), 1, most_blocks);
            cuda::launch(normalise<T, L>, tiles.grid, tiles.block, rows, channels, in<T>(x), k,
                         addend ? in<T>(*addend) : nullptr, fusion.relu, out<T>(y));
          },
          x, y, addend ? *addend : x);
      return;
    }
    const cuda::PooledSizes size{x.dim(0), channels, x.dim(2), x.dim(3), y.dim(2), y.dim(3)};
    cuda::with_lanes<T>(
        channels,
        [&](auto lanes) {
          constexpr int L = lanes;
          const ChannelTiles tiles(size.images * size.out_h * size.out_w, channels, L, sizeof(T), 1, most_blocks);
          cuda::launch(normalise_and_pool<T, L>, tiles.grid, tiles.block, size, in<T>(x), k, fusion.relu, out<T>(y),
                       out<T>(selected), out<std::uint8_t>(index));
        },
        x, y, selected, index);
  });
}

void CudaBackend::batch_norm_grad_reduce(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                         const Array& grad_y, const BatchNormLastRelu* last, const Array& sum_dy,
                                         const Array& sum_dy_xhat) {
  dispatch_floating(x.dtype(), "batch_norm", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const AffinePointers<C> k(affine);
    cuda::with_lanes<T>(
        x.dim(1),
        [&](auto lanes) {
          constexpr int L = lanes;
          const GradSumsOfRows<T, L> part{in<T>(x),
                                          in<T>(grad_y),
                                          k,
                                          fusion.relu,
                                          last ? in<T>(last->y) : nullptr,
                                          last ? out<T>(last->grad) : nullptr};
          cuda::sum_over_rows<GradSums<C, L>>(x, part, WriteGradSums<C>{k.invstd, out<C>(sum_dy), out<C>(sum_dy_xhat)});
        },
        x, grad_y, last ? last->y : x, last ? last->grad : x);
  });
}

void CudaBackend::batch_norm_grad_input(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                        const Array& grad_y, const Array& index, const Array& sum_dy,
                                        const Array& sum_dy_xhat, const Array* count, const Array& grad_x) {
  const std::int64_t channels = x.dim(1);
  dispatch_floating(x.dtype(), "batch_norm", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const AffinePointers<C> k(affine);
    const SumPointers<C> sums{in<C>(sum_dy), in<C>(sum_dy_xhat), count ? in<C>(*count) : nullptr};
    if (!fusion.max_pool_2x2) {
      cuda::with_lanes<T>(
          channels,
          [&](auto lanes) {
            constexpr int L = lanes;
            const std::int64_t rows = x.dim(0) * x.dim(2) * x.dim(3);
            const ChannelTiles tiles(rows, channels, L, sizeof(T), 1, most_blocks);
            cuda::launch(grad_of_normalise<T, L>, tiles.grid, tiles.block, rows, channels, in<T>(x), k, fusion.relu,
                         in<T>(grad_y), sums, out<T>(grad_x));
          },
          x, grad_y, grad_x);
      return;
    }
    const cuda::PooledSizes size{x.dim(0), channels, x.dim(2), x.dim(3), grad_y.dim(2), grad_y.dim(3)};
    cuda::with_lanes<T>(
        channels,
        [&](auto lanes) {
          constexpr int L = lanes;
          const std::int64_t squares = size.images * ((size.height + 1) / 2) * ((size.width + 1) / 2);
          const ChannelTiles tiles(squares, channels, L, sizeof(T), 1, most_blocks);
          cuda::launch(grad_of_normalise_and_pool<T, L>, tiles.grid, tiles.block, size, in<T>(x), k, in<T>(grad_y),
                       in<std::uint8_t>(index), sums, out<T>(grad_x));
        },
        x, grad_y, index, grad_x);
  });
}

}  // namespace tandem
