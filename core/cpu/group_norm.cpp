// Normalisation within groups of channels. Layer normalisation, where a sample is a single row of channels, has
// separate loops. They read each row several times while it is in the cache. For images, sums are computed for each
// channel of each sample, and the statistics of a group are derived from those of its channels.
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/vector_math.h>

#include <algorithm>
#include <vector>

namespace tandem {

namespace {

using cpu::for_each_lanes;
using cpu::load;
using cpu::RowMath;
using cpu::store;
using cpu::vec;

// Returns the sum of n numbers. f(i, some) returns a vector that holds the numbers from i to i + some - 1; `some` is
// the number of lanes, or less at the end. Four vectors of partial sums are kept side by side and added at the end.
template <class C, class F>
C sum_over(std::int64_t n, F f) {
  using M = RowMath<C>;
  constexpr int L = cpu::math_lanes<C>;
  typename M::V sum[4] = {};
  std::int64_t i = 0;
  for (; i + 4 * L <= n; i += 4 * L)
    for (int u = 0; u < 4; ++u) sum[u] += f(i + u * L, std::int64_t{L});
  for (int u = 0; i < n; i += L, ++u) sum[u] += f(i, std::min<std::int64_t>(L, n - i));
  return M::sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

template <class C>
struct Moments {
  C mean, m2;  // m2 is the sum of squared deviations from the mean
};

template <class C, class T>
Moments<C> moments_of(const T* x, std::int64_t n, bool is_centred) {
  using M = RowMath<C>;
  using V = typename M::V;
  C mean = 0;
  if (is_centred)
    mean = sum_over<C>(n, [&](std::int64_t i, std::int64_t some) { return M::load_some(x + i, some); }) /
           static_cast<C>(n);
  return {mean, sum_over<C>(n, [&](std::int64_t i, std::int64_t some) {
            const V d = M::load_some(x + i, some, mean) - mean;
            return V(d * d);
          })};
}

template <class C>
const C* pointer(const Array* array) {
  return array ? array->data<C>() : nullptr;
}

template <class C>
C inverse_root(C m2, std::int64_t count, double eps) {
  return 1 / std::sqrt(m2 / static_cast<C>(count) + static_cast<C>(eps));
}

template <class C, class T>
void normalise_row(const T* x, T* y, std::int64_t n, C mean, C rstd, const C* weight, const C* bias) {
  using M = RowMath<C>;
  using V = typename M::V;
  for_each_lanes<cpu::math_lanes<C>>(n, [&](std::int64_t i, std::int64_t some) {
    V v = (M::load_some(x + i, some) - mean) * rstd;
    if (weight) v *= M::load_some(weight + i, some);
    if (bias) v += M::load_some(bias + i, some);
    M::store_some(y + i, v, some);
  });
}

// Two sums for each chunk and each channel. If channels share their sums, `channels` is the smaller number. The chunks
// are combined in order, in double.
struct Partial {
  std::int64_t chunks, channels;
  Array sums;
  template <class C>
  C* of(std::int64_t chunk) const {
    return static_cast<C*>(sums.raw()) + chunk * 2 * channels;
  }
};

template <class C>
void add_up(const Partial& partial, int which, const Array* out) {
  if (!out) return;
  C* to = out->data<C>();
  std::vector<double> sum(static_cast<std::size_t>(partial.channels), 0.0);
  for (std::int64_t k = 0; k < partial.chunks; ++k) {
    const C* from = partial.of<C>(k) + which * partial.channels;
    for (std::int64_t c = 0; c < partial.channels; ++c) sum[c] += from[c];
  }
  std::copy(sum.begin(), sum.end(), to);
}

constexpr std::int64_t piece_pixels = 512;  // the maximum in each piece of a sample

std::int64_t pieces_of_sample(const GroupNorm& how) { return (how.before + piece_pixels - 1) / piece_pixels; }

// If the numbers of a channel are a run in memory (row-major), calls horizontal(sample, c, offset) for each channel's
// run. Otherwise (channels last) calls vertical(lanes, sample, piece, c, offset, n) for blocks of channels starting at
// c, and for pieces of n pixels (at most piece_pixels) starting at `offset`. The pixels of a piece are consecutive,
// `channels` apart.
template <class C, class Horizontal, class Vertical>
void for_each_channel(const GroupNorm& how, Horizontal horizontal, Vertical vertical) {
  const std::int64_t elements = how.samples * how.before * how.channels * how.after;
  if (how.before == 1) {
    cpu::parallel_for(how.samples * how.channels, elements,
                      [&](std::int64_t i) { horizontal(i / how.channels, i % how.channels, i * how.after); });
    return;
  }
  const std::int64_t pieces = pieces_of_sample(how);
  cpu::parallel_for(how.samples * pieces, elements, [&](std::int64_t i) {
    const std::int64_t sample = i / pieces, first = i % pieces * piece_pixels;
    const std::int64_t n = std::min(piece_pixels, how.before - first);
    cpu::for_each_channel_block<C>(how.channels, [&](auto lanes, std::int64_t c) {
      vertical(lanes, sample, i, c, (sample * how.before + first) * how.channels + c, n);
    });
  });
}

// Merges the pieces of for_each_channel into (samples, 2, channels).
template <class C, class Merge>
void merge_pieces(const GroupNorm& how, const Partial& pieces, const Partial& whole, Merge merge) {
  const std::int64_t each = pieces.chunks / std::max<std::int64_t>(1, how.samples);
  for (std::int64_t n = 0; n < how.samples; ++n) {
    C* to = whole.of<C>(n);
    for (std::int64_t p = 0; p < each; ++p)
      merge(p, std::min(piece_pixels, how.before - p * piece_pixels), pieces.of<C>(n * each + p), to);
  }
}

template <class C>
Partial partial_sums(std::int64_t chunks, std::int64_t channels) {
  return {chunks, channels, Array::empty({chunks, 2, channels}, dtype_of<C>())};
}
template <class C>
Partial pieces_of(const GroupNorm& how) {
  return partial_sums<C>(how.samples * pieces_of_sample(how), how.channels);
}

// Returns the mean and m2 of each channel of each sample.
template <class C, class T>
Partial channel_moments(const GroupNorm& how, const T* x) {
  const std::int64_t channels = how.channels;
  const Partial whole = partial_sums<C>(how.samples, channels);
  const Partial pieces = how.before == 1 ? whole : pieces_of<C>(how);
  for_each_channel<C>(
      how,
      [&](std::int64_t sample, std::int64_t c, std::int64_t at) {
        const auto m = moments_of<C>(x + at, how.after, how.is_centred);
        whole.of<C>(sample)[c] = m.mean;
        whole.of<C>(sample)[channels + c] = m.m2;
      },
      [&](auto lanes, std::int64_t, std::int64_t piece, std::int64_t c, std::int64_t at, std::int64_t n) {
        constexpr int L = lanes;
        using V = vec<C, L>;
        V sum[2] = {}, square[2] = {};
        for (std::int64_t i = 0; how.is_centred && i < n; ++i) sum[i % 2] += load<L>(x + at + i * channels);
        const V mean = (sum[0] + sum[1]) / static_cast<C>(n);
        for (std::int64_t i = 0; i < n; ++i) {
          const V d = load<L>(x + at + i * channels) - mean;
          square[i % 2] += d * d;
        }
        store<L>(pieces.of<C>(piece) + c, mean);
        store<L>(pieces.of<C>(piece) + channels + c, V(square[0] + square[1]));
      });
  if (how.before == 1) return whole;
  // Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
  merge_pieces<C>(how, pieces, whole, [&](std::int64_t p, std::int64_t n, const C* piece, C* sum) {
    const C before = static_cast<C>(p * piece_pixels), share = static_cast<C>(n) / (before + static_cast<C>(n));
    for (std::int64_t c = 0; c < channels; ++c) {
      if (p == 0) sum[c] = sum[channels + c] = 0;
      const C delta = piece[c] - sum[c];
      sum[c] += delta * share;
      sum[channels + c] += piece[channels + c] + delta * delta * before * share;
    }
  });
  return whole;
}

// Computes y = a * scale[c] + b * slope[c] + shift[c]. The coefficients of each sample are (3, channels). b may be
// null.
template <class C, class T>
void combine(const GroupNorm& how, const T* a, const T* b, const C* coefficients, T* y) {
  using M = RowMath<C>;
  const std::int64_t channels = how.channels;
  for_each_channel<C>(
      how,
      [&](std::int64_t sample, std::int64_t c, std::int64_t at) {
        const C* k = coefficients + sample * 3 * channels + c;
        const C scale = k[0], slope = k[channels], shift = k[2 * channels];
        for_each_lanes<cpu::math_lanes<C>>(how.after, [&](std::int64_t i, std::int64_t some) {
          typename M::V v = M::load_some(a + at + i, some) * scale + shift;
          if (b) v += M::load_some(b + at + i, some) * slope;
          M::store_some(y + at + i, v, some);
        });
      },
      [&](auto lanes, std::int64_t sample, std::int64_t, std::int64_t c, std::int64_t at, std::int64_t n) {
        constexpr int L = lanes;
        const C* k = coefficients + sample * 3 * channels + c;
        const auto scale = load<L>(k), slope = load<L>(k + channels), shift = load<L>(k + 2 * channels);
        for (std::int64_t i = 0; i < n; ++i) {
          vec<C, L> v = load<L>(a + at + i * channels) * scale + shift;
          if (b) v += load<L>(b + at + i * channels) * slope;
          store<L>(y + at + i * channels, v);
        }
      });
}

bool is_rows(const GroupNorm& how) { return how.before == 1 && how.after == 1; }

// Returns the number of rows in a chunk. There are at most 32 chunks, so adding up their contributions to the gradient
// of the weight takes little time.
std::int64_t rows_of_chunk(const GroupNorm& how) { return std::max<std::int64_t>(16, (how.samples + 31) / 32); }

template <class C, class T>
void grad_of_rows(const GroupNorm& how, const T* x, const C* weight, const C* mean, const C* rstd, const T* grad,
                  T* grad_x, const Array* grad_weight, const Array* grad_bias) {
  using M = RowMath<C>;
  using V = typename M::V;
  constexpr int L = cpu::math_lanes<C>;
  const std::int64_t channels = how.channels, groups = how.groups, n = channels / groups;
  const std::int64_t rows = rows_of_chunk(how), chunks = (how.samples + rows - 1) / rows;
  const bool sums_weight = grad_weight || grad_bias;
  const Partial partial = partial_sums<C>(sums_weight ? chunks : 0, channels);
  cpu::parallel_for(chunks, how.samples * channels, [&](std::int64_t k) {
    C* of_weight = sums_weight ? partial.of<C>(k) : nullptr;
    if (sums_weight) std::fill(of_weight, of_weight + 2 * channels, C(0));
    for (std::int64_t r = k * rows * groups; r < std::min(how.samples, (k + 1) * rows) * groups; ++r) {
      const std::int64_t first = r % groups * n;  // the first channel of the group
      const T *in = x + r * n, *dy = grad + r * n;
      const C* w = weight ? weight + first : nullptr;
      V sum[2] = {}, sum_xhat[2] = {};
      const auto look = [&](std::int64_t i, std::int64_t some, int u) {
        const V xhat = (M::load_some(in + i, some, mean[r]) - mean[r]) * rstd[r];
        const V g = M::load_some(dy + i, some), weighted = w ? g * M::load_some(w + i, some) : g;
        sum[u] += weighted;
        sum_xhat[u] += weighted * xhat;
        if (!sums_weight) return;
        C* to = of_weight + first + i;
        M::store_some(to, M::load_some(to, some) + g * xhat, some);
        M::store_some(to + channels, M::load_some(to + channels, some) + g, some);
      };
      std::int64_t i = 0;
      for (; i + 2 * L <= n; i += 2 * L)
        for (int u = 0; u < 2; ++u) look(i + u * L, L, u);
      for (; i < n; i += L) look(i, std::min<std::int64_t>(L, n - i), 0);
      if (!grad_x) continue;
      const C a = how.is_centred ? M::sum(sum[0] + sum[1]) / static_cast<C>(n) : C(0);
      const C b = M::sum(sum_xhat[0] + sum_xhat[1]) / static_cast<C>(n);
      for_each_lanes<L>(n, [&](std::int64_t i, std::int64_t some) {
        const V xhat = (M::load_some(in + i, some) - mean[r]) * rstd[r];
        V g = M::load_some(dy + i, some);
        if (w) g *= M::load_some(w + i, some);
        M::store_some(grad_x + r * n + i, V((g - a - xhat * b) * rstd[r]), some);
      });
    }
  });
  add_up<C>(partial, 0, grad_weight);
  add_up<C>(partial, 1, grad_bias);
}

// Returns the sums of dy * (x - mean) * rstd and of dy, for each channel of each sample.
template <class C, class T>
Partial channel_grad_sums(const GroupNorm& how, const T* x, const T* grad, const C* mean, const C* rstd) {
  using M = RowMath<C>;
  const std::int64_t channels = how.channels, size = channels / how.groups;
  const Partial whole = partial_sums<C>(how.samples, channels);
  const Partial pieces = how.before == 1 ? whole : pieces_of<C>(how);
  for_each_channel<C>(
      how,
      [&](std::int64_t sample, std::int64_t c, std::int64_t at) {
        using V = typename M::V;
        const C m = mean[sample * how.groups + c / size], s = rstd[sample * how.groups + c / size];
        V sum{}, sum_x{};
        for_each_lanes<cpu::math_lanes<C>>(how.after, [&](std::int64_t i, std::int64_t some) {
          const V g = M::load_some(grad + at + i, some);
          sum += g;
          sum_x += g * (M::load_some(x + at + i, some) - m);
        });
        whole.of<C>(sample)[c] = M::sum(sum_x) * s;
        whole.of<C>(sample)[channels + c] = M::sum(sum);
      },
      [&](auto lanes, std::int64_t sample, std::int64_t piece, std::int64_t c, std::int64_t at, std::int64_t n) {
        constexpr int L = lanes;
        using V = vec<C, L>;
        V m{}, s{}, sum{}, sum_x{};
        for (int j = 0; j < L; ++j) {
          m[j] = mean[sample * how.groups + (c + j) / size];
          s[j] = rstd[sample * how.groups + (c + j) / size];
        }
        for (std::int64_t i = 0; i < n; ++i) {
          const V g = load<L>(grad + at + i * channels);
          sum += g;
          sum_x += g * (load<L>(x + at + i * channels) - m);
        }
        store<L>(pieces.of<C>(piece) + c, V(sum_x * s));
        store<L>(pieces.of<C>(piece) + channels + c, sum);
      });
  if (how.before != 1)
    merge_pieces<C>(how, pieces, whole, [&](std::int64_t p, std::int64_t, const C* piece, C* sum) {
      for (std::int64_t c = 0; c < 2 * channels; ++c) sum[c] = p == 0 ? piece[c] : sum[c] + piece[c];
    });
  return whole;
}

}  // namespace

void CpuBackend::group_norm(const GroupNorm& how, const Array& x, const Array* weight, const Array* bias,
                            const Array& y, const Array& mean_out, const Array& rstd_out) {
  dispatch_floating(x.dtype(), "group_norm", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const T* in = static_cast<const T*>(x.raw());
    T* out = static_cast<T*>(y.raw());
    const C *w = pointer<C>(weight), *b = pointer<C>(bias);
    C *mean = mean_out.data<C>(), *rstd = rstd_out.data<C>();
    const std::int64_t channels = how.channels, size = channels / how.groups, count = how.group_size();
    if (is_rows(how)) {
      const std::int64_t batch = std::max<std::int64_t>(1, 1024 / size), rows = how.samples * how.groups;
      cpu::parallel_for((rows + batch - 1) / batch, rows * size, [&](std::int64_t k) {
        for (std::int64_t r = k * batch; r < std::min(rows, (k + 1) * batch); ++r) {
          const auto m = moments_of<C>(in + r * size, size, how.is_centred);
          mean[r] = m.mean;
          rstd[r] = inverse_root(m.m2, size, how.eps);
          const std::int64_t first = r % how.groups * size;
          normalise_row<C>(in + r * size, out + r * size, size, mean[r], rstd[r], w ? w + first : w, b ? b + first : b);
        }
      });
      return;
    }
    const Partial moments = channel_moments<C>(how, in);
    std::vector<C> k(static_cast<std::size_t>(how.samples * 3 * channels));
    for (std::int64_t r = 0; r < how.samples * how.groups; ++r) {
      const std::int64_t n = r / how.groups, first = r % how.groups * size;
      const C *of_mean = moments.of<C>(n) + first, *of_m2 = of_mean + channels;
      double sum = 0, m2 = 0;
      for (std::int64_t c = 0; c < size; ++c) sum += of_mean[c];
      mean[r] = static_cast<C>(sum / static_cast<double>(size));
      for (std::int64_t c = 0; c < size; ++c) {
        const double d = of_mean[c] - mean[r];
        m2 += of_m2[c] + d * d * static_cast<double>(how.before * how.after);
      }
      rstd[r] = inverse_root(static_cast<C>(m2), count, how.eps);
      C* of = k.data() + n * 3 * channels + first;
      for (std::int64_t c = 0; c < size; ++c) {
        of[c] = rstd[r] * (w ? w[first + c] : C(1));
        of[2 * channels + c] = (b ? b[first + c] : C(0)) - mean[r] * of[c];
      }
    }
    combine<C, T>(how, in, nullptr, k.data(), out);
  });
}

void CpuBackend::group_norm_grad(const GroupNorm& how, const Array& x, const Array* weight, const Array& mean_in,
                                 const Array& rstd_in, const Array& grad_y, const Array* grad_x,
                                 const Array* grad_weight, const Array* grad_bias) {
  dispatch_floating(x.dtype(), "group_norm", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const T* in = static_cast<const T*>(x.raw());
    const T* grad = static_cast<const T*>(grad_y.raw());
    T* out = grad_x ? static_cast<T*>(grad_x->raw()) : nullptr;
    const C *w = pointer<C>(weight), *mean = mean_in.data<C>(), *rstd = rstd_in.data<C>();
    if (is_rows(how)) return grad_of_rows<C>(how, in, w, mean, rstd, grad, out, grad_weight, grad_bias);
    const std::int64_t channels = how.channels, size = channels / how.groups;
    const C share = 1 / static_cast<C>(how.group_size());
    const Partial sums = channel_grad_sums<C>(how, in, grad, mean, rstd);
    add_up<C>(sums, 0, grad_weight);
    add_up<C>(sums, 1, grad_bias);
    if (!out) return;
    // grad_x = rstd * (w dy - a - xhat b), computed as dy * scale + x * slope + shift. Here w is the weight, and a and
    // b are the means of w dy and of w dy xhat over the group.
    std::vector<C> k(static_cast<std::size_t>(how.samples * 3 * channels));
    for (std::int64_t r = 0; r < how.samples * how.groups; ++r) {
      const std::int64_t n = r / how.groups, first = r % how.groups * size;
      const C *dy_xhat = sums.of<C>(n) + first, *dy = dy_xhat + channels;
      double a = 0, b = 0;
      for (std::int64_t c = 0; c < size; ++c) {
        a += (w ? w[first + c] : C(1)) * dy[c];
        b += (w ? w[first + c] : C(1)) * dy_xhat[c];
      }
      const C slope = -rstd[r] * rstd[r] * static_cast<C>(b) * share;
      const C shift = (how.is_centred ? -rstd[r] * static_cast<C>(a) * share : C(0)) - slope * mean[r];
      C* of = k.data() + n * 3 * channels + first;
      for (std::int64_t c = 0; c < size; ++c) {
        of[c] = rstd[r] * (w ? w[first + c] : C(1));
        of[channels + c] = slope;
        of[2 * channels + c] = shift;
      }
    }
    combine<C, T>(how, grad, in, k.data(), out);
  });
}

}  // namespace tandem
