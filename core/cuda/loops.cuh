// Element-wise loops over arrays of one shape. A thread takes one element or a few neighbours.
//
// A kernel is compiled for each function and each type. To limit their number, f32, bf16 and f16 share one kernel: it
// computes in float, and an argument says how the numbers are stored. That costs no time, because the kernel waits for
// memory anyway. Only functions that are often called with views and broadcast arrays have a kernel for arrays of any
// strides. The other functions get dense copies of such arrays (with_dense).
#pragma once

#include <tandem/core/array/loop_nest.h>
#include <tandem/core/backend/backend.h>
#include <tandem/core/cuda/launch.cuh>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <utility>

namespace tandem::cuda {

inline constexpr int loop_threads = 256;

// n neighbours in memory, which a thread loads or stores at once: up to 16 bytes by one instruction. If their size is
// not a power of two, they are aligned as one number is, and move one by one.
template <class T, int n>
struct alignas(!std::has_single_bit(sizeof(T) * n) ? sizeof(T)
               : sizeof(T) * n < 16                ? sizeof(T) * n
                                                   : 16) Pack {
  T values[n];
};

// The dtype in memory of numbers that a kernel handles as floats.
enum class FloatBits { f32, bf16, f16 };

template <class T>
TANDEM_HOST_DEVICE T load_one(FloatBits, const T* from, std::int64_t i) {
  return from[i];
}
TANDEM_HOST_DEVICE inline float load_one(FloatBits bits, const float* from, std::int64_t i) {
  if (bits == FloatBits::f32) return from[i];
  if (bits == FloatBits::bf16) return reinterpret_cast<const bfloat16*>(from)[i];
  return reinterpret_cast<const float16*>(from)[i];
}

template <class T>
TANDEM_HOST_DEVICE void store_one(FloatBits, T* to, std::int64_t i, std::type_identity_t<T> value) {
  to[i] = value;
}
TANDEM_HOST_DEVICE inline void store_one(FloatBits bits, float* to, std::int64_t i, float value) {
  if (bits == FloatBits::f32) to[i] = value;
  else if (bits == FloatBits::bf16) reinterpret_cast<bfloat16*>(to)[i] = bfloat16(value);
  else reinterpret_cast<float16*>(to)[i] = float16(value);
}

template <int n, class T>
TANDEM_HOST_DEVICE Pack<T, n> load_pack(FloatBits bits, const T* from, std::int64_t i) {
  if constexpr (std::is_same_v<T, float>) {
    if (bits != FloatBits::f32) {
      const auto stored =
          *reinterpret_cast<const Pack<std::uint16_t, n>*>(reinterpret_cast<const std::uint16_t*>(from) + i);
      Pack<float, n> values;
      for (int j = 0; j < n; ++j)
        values.values[j] = bits == FloatBits::bf16 ? static_cast<float>(std::bit_cast<bfloat16>(stored.values[j]))
                                                   : static_cast<float>(std::bit_cast<float16>(stored.values[j]));
      return values;
    }
  }
  return *reinterpret_cast<const Pack<T, n>*>(from + i);
}

template <int n, class T>
TANDEM_HOST_DEVICE void store_pack(FloatBits bits, T* to, std::int64_t i, const Pack<T, n>& values) {
  if constexpr (std::is_same_v<T, float>) {
    if (bits != FloatBits::f32) {
      Pack<std::uint16_t, n> stored;
      for (int j = 0; j < n; ++j)
        stored.values[j] = bits == FloatBits::bf16 ? bfloat16(values.values[j]).bits : float16(values.values[j]).bits;
      *reinterpret_cast<Pack<std::uint16_t, n>*>(reinterpret_cast<std::uint16_t*>(to) + i) = stored;
      return;
    }
  }
  *reinterpret_cast<Pack<T, n>*>(to + i) = values;
}

// i / size for i < 2^31, by a multiplication (Granlund, Montgomery, "Division by invariant integers using
// multiplication", 1994). A division takes longer than what most kernels do with an element.
struct FastDivision {
  std::uint32_t size = 1, factor = 1;
  int shift = 0;
  FastDivision() = default;
  explicit FastDivision(std::uint32_t n)
      : size(n),
        factor(static_cast<std::uint32_t>((((std::uint64_t{1} << std::bit_width(n - 1)) - n) << 32) / n + 1)),
        shift(std::bit_width(n - 1)) {}
  TANDEM_HOST_DEVICE std::uint32_t operator()(std::uint32_t i) const {
    return (static_cast<std::uint32_t>(std::uint64_t{i} * factor >> 32) + i) >> shift;
  }
};

// A LoopNest as the argument of a kernel, which goes over its items. An item is one element of each array or, if
// `in_packs`, a pack of `width` of them along the innermost dimension. That dimension must be a whole number of packs,
// and each array must have aligned packs there, or repeat one number.
template <int K>
struct Walk {
  static constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();  // items, and steps in an array
  int ndim;
  std::uint32_t items = 1;
  bool in_packs;
  std::array<bool, K> repeats;
  std::array<std::int64_t, K> begin;
  std::array<FastDivision, Dims::max_ndim> size;
  std::array<std::array<std::int32_t, K>, Dims::max_ndim> stride;

  // `can_be_packs` says for each array whether its memory is aligned for packs.
  Walk(LoopNest<K> nest, const std::array<std::int64_t, K>& from, const std::array<bool, K>& can_be_packs, int width)
      : ndim(nest.ndim), begin(from) {
    const int last = ndim - 1;
    in_packs = nest.size[last] % width == 0;
    for (int k = 0; k < K; ++k) {
      repeats[k] = k < K - 1 && nest.stride[last][k] == 0;
      bool fits = can_be_packs[k] && nest.stride[last][k] == 1 && begin[k] % width == 0;
      for (int d = 0; d < last; ++d) fits = fits && nest.stride[d][k] % width == 0;
      in_packs = in_packs && (fits || repeats[k]);
    }
    if (in_packs) {
      nest.size[last] /= width;
      for (auto& s : nest.stride[last]) s *= width;
    }
    for (int d = 0; d < ndim; ++d) {
      items *= static_cast<std::uint32_t>(nest.size[d]);
      size[d] = FastDivision(static_cast<std::uint32_t>(nest.size[d]));
      for (int k = 0; k < K; ++k) stride[d][k] = static_cast<std::int32_t>(nest.stride[d][k]);
    }
  }

  // Returns the position at which item `i` begins in each array, in elements.
  TANDEM_HOST_DEVICE std::array<std::int64_t, K> offsets(std::uint32_t i) const {
    std::array<std::int32_t, K> steps{};
    for (int d = ndim - 1; d >= 0; --d) {
      const std::uint32_t next = d == 0 ? 0 : size[d](i);
      const auto at = static_cast<std::int32_t>(i - next * size[d].size);
      for (int k = 0; k < K; ++k) steps[k] += at * stride[d][k];
      i = next;
    }
    std::array<std::int64_t, K> result;
    for (int k = 0; k < K; ++k) result[k] = begin[k] + steps[k];
    return result;
  }
};

// Calls f(nest, begin) for the nest or, if it is too long for a Walk, for parts of it. `begin` says where a part begins
// in each array, in elements.
template <int K, class F>
void for_each_walk(const LoopNest<K>& nest, const std::array<std::int64_t, K>& begin, F f) {
  std::int64_t numel = 1, most = 0;
  std::array<std::int64_t, K> steps{};
  int longest = 0;
  for (int d = 0; d < nest.ndim; ++d) {
    numel *= nest.size[d];
    for (int k = 0; k < K; ++k) {
      const std::int64_t length = std::abs((nest.size[d] - 1) * nest.stride[d][k]);
      steps[k] += length;
      if (const std::int64_t span = std::max(length, nest.size[d]); span > most) {
        most = span;
        longest = d;
      }
    }
  }
  if (std::max(numel, std::ranges::max(steps)) <= Walk<K>::most) return f(nest, begin);
  LoopNest<K> part = nest;
  part.size[longest] = nest.size[longest] / 2;
  for_each_walk<K>(part, begin, f);
  auto middle = begin;
  for (int k = 0; k < K; ++k) middle[k] += part.size[longest] * nest.stride[longest][k];
  part.size[longest] = nest.size[longest] - part.size[longest];
  for_each_walk<K>(part, middle, f);
}

template <int width, class T>
TANDEM_HOST_DEVICE Pack<T, width> load_or_repeat(bool repeats, FloatBits bits, const T* from, std::int64_t i) {
  if (!repeats) return load_pack<width>(bits, from, i);
  Pack<T, width> pack;
  const T value = load_one(bits, from, i);
  for (T& v : pack.values) v = value;
  return pack;
}

template <class Out, int width, class F, class... In>
TANDEM_HOST_DEVICE void apply_to_packs(const F& f, Pack<Out, width>& result, const Pack<In, width>... x) {
  for (int j = 0; j < width; ++j) result.values[j] = f(x.values[j]...);
}

template <int width, int K, std::size_t... input, class Out, class F, class... In>
TANDEM_HOST_DEVICE void apply(const Walk<K>& walk, std::uint32_t item, std::index_sequence<input...>, FloatBits bits,
                              const F& f, Out* out, const In*... in) {
  const auto offset = walk.offsets(item);
  if (!walk.in_packs) return store_one(bits, out, offset[K - 1], f(load_one(bits, in, offset[input])...));
  Pack<Out, width> result;
  apply_to_packs(f, result, load_or_repeat<width>(walk.repeats[input], bits, in, offset[input])...);
  store_pack(bits, out, offset[K - 1], result);
}

template <int width, class Out, class F, class... In>
__global__ void transform_strided(Walk<static_cast<int>(sizeof...(In)) + 1> walk, FloatBits bits, F f, Out* out,
                                  const In*... in) {
  const std::uint32_t step = gridDim.x * blockDim.x;
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < walk.items; i += step)
    apply<width>(walk, i, std::index_sequence_for<In...>{}, bits, f, out, in...);
}

// For arrays that are all dense: each thread takes `width` neighbours. `in_packs` says whether the addresses allow a
// thread to load them at once.
template <int width, class Out, class F, class... In>
__global__ void transform_dense(std::int64_t numel, FloatBits bits, bool in_packs, F f, Out* out, const In*... in) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x * width;
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * width;
  for (std::int64_t i = first; i < numel; i += step) {
    if (in_packs && i + width <= numel) {
      Pack<Out, width> result;
      apply_to_packs(f, result, load_pack<width>(bits, in, i)...);
      store_pack(bits, out, i, result);
    } else {
      const std::int64_t end = i + width < numel ? i + width : numel;
      for (std::int64_t j = i; j < end; ++j) store_one(bits, out, j, f(load_one(bits, in, j)...));
    }
  }
}

// Returns whether a pack of `width` numbers may begin at `data`. `width` is a power of two.
template <class T>
bool is_aligned(const T* data, int width) {
  return reinterpret_cast<std::uintptr_t>(data) % std::min(sizeof(T) * static_cast<std::size_t>(width), 16ul) == 0;
}

// Neighbours that a thread takes: 16 bytes of the widest type. Of floats it takes 8, which are 16 bytes of bf16.
template <class... T>
inline constexpr int width_of = (std::is_same_v<T, float> || ...) && ((sizeof(T) <= 4) && ...)
                                    ? 8
                                    : static_cast<int>(16 / std::max({sizeof(T)...}));

// out[i] = f(in[i]...) for arrays that are all dense, in one order.
template <class Out, class F, class... In>
void transform_neighbours(std::int64_t numel, FloatBits bits, F f, Out* out, const In*... in) {
  constexpr int width = width_of<Out, In...>;
  launch(transform_dense<width, Out, F, In...>, blocks_for((numel + width - 1) / width, loop_threads),
         dim3(loop_threads), numel, bits, is_aligned(out, width) && (is_aligned(in, width) && ...), f, out, in...);
}

// The same for arrays of any strides.
template <int K, class Out, class F, class... In>
void transform_nest(const LoopNest<K>& nest, FloatBits bits, F f, Out* out, const In*... in) {
  constexpr int width = width_of<Out, In...>;
  for_each_walk<K>(nest, {}, [&](const LoopNest<K>& part, const std::array<std::int64_t, K>& begin) {
    const Walk<K> walk(part, begin, {is_aligned(in, width)..., is_aligned(out, width)}, width);
    launch(transform_strided<width, Out, F, In...>, blocks_for(walk.items, loop_threads), dim3(loop_threads), walk,
           bits, f, out, in...);
  });
}

inline FloatBits float_bits(DType dtype) {
  return dtype == DType::bf16 ? FloatBits::bf16 : dtype == DType::f16 ? FloatBits::f16 : FloatBits::f32;
}

// An array whose elements are T to a kernel.
template <class T>
struct Typed {
  using type = T;
  const Array& array;
};

// The loops for elementwise::map and similar functions (core/array/element_dispatch.h): out[i] = f(in[i]...), for
// arrays of any strides if `any_strides`, otherwise for dense arrays.
template <bool any_strides>
struct LoopsOf {
  template <class T>
  using element_t = compute_t<T>;

  template <class Out, class F>
  static void transform(const Array& out, F f) {
    run<Out>(out, f);
  }
  template <class Out, class In, class F>
  static void transform(const Array& a, const Array& out, F f) {
    run<Out>(out, f, Typed<In>{a});
  }
  template <class Out, class In, class F>
  static void transform(const Array& a, const Array& b, const Array& out, F f) {
    run<Out>(out, f, Typed<In>{a}, Typed<In>{b});
  }
  template <class Out, class In, class F>
  static void transform(const Array& a, const Array& b, const Array& c, const Array& out, F f) {
    run<Out>(out, f, Typed<In>{a}, Typed<In>{b}, Typed<In>{c});
  }
  template <class T, class F>
  static void select(const Array& condition, const Array& a, const Array& b, const Array& out, F f) {
    run<T>(out, f, Typed<bool>{condition}, Typed<T>{a}, Typed<T>{b});
  }

 private:
  // The arrays that are floats to the kernel are stored alike.
  template <class Out, class F, class... In>
  static void run(const Array& out, F f, const In&... in) {
    if (out.numel() == 0) return;
    FloatBits bits = float_bits(std::is_same_v<Out, float> ? out.dtype() : DType::f32);
    ((std::is_same_v<typename In::type, float> ? void(bits = float_bits(in.array.dtype())) : void()), ...);
    auto* const to = static_cast<Out*>(out.raw());
    const LoopNest<sizeof...(In) + 1> nest({&in.array..., &out});
    if constexpr (any_strides) {
      if (!nest.is_dense())
        return transform_nest(nest, bits, f, to, static_cast<const typename In::type*>(in.array.raw())...);
    }
    transform_neighbours(out.numel(), bits, f, to, static_cast<const typename In::type*>(in.array.raw())...);
  }
};
using Loops = LoopsOf<true>;
using DenseLoops = LoopsOf<false>;

// Returns whether the arrays are dense, in one order.
template <class... Arrays>
bool are_dense(const Arrays&... arrays) {
  return LoopNest<sizeof...(Arrays)>({&arrays...}).is_dense();
}

// Calls compute(in..., out) with arrays that are dense in one order: those that are given, or copies of them.
template <class F, class... In>
void with_dense(F compute, const Array& out, const In&... in) {
  if (are_dense(in..., out)) return compute(in..., out);
  const Array to = are_dense(out) ? out : Array::empty(out.shape(), out.dtype(), out.device());
  const auto like_it = [&](const Array& a) {
    if (are_dense(a, to)) return a;
    const Array memory = Array::empty({a.numel()}, a.dtype(), a.device());
    const Array copy(memory.storage(), a.shape(), to.strides(), memory.offset(), a.dtype());
    backend(a.device()).copy(a, copy);
    return copy;
  };
  compute(like_it(in)..., to);
  if (to.raw() != out.raw()) backend(out.device()).copy(to, out);
}

}  // namespace tandem::cuda
