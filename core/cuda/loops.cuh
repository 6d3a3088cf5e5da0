// Element-wise loops over arrays of one shape. A thread takes one element or a few neighbours.
//
// A kernel is compiled for each function and type, which takes long where they are many. So f32, bf16 and f16 share
// one: the kernel computes in float, and finds out while it runs how the numbers are stored. Memory is what it waits
// for. And only functions that are often called with views and broadcast arrays have a kernel for arrays of any
// strides.
#pragma once

#include <tandem/core/array/loop_nest.h>
#include <tandem/core/backend/backend.h>
#include <tandem/core/cuda/launch.cuh>

#include <utility>

namespace tandem::cuda {

inline constexpr int loop_threads = 256;

template <class T, int n>
struct alignas(!std::has_single_bit(sizeof(T) * n) ? sizeof(T)
               : sizeof(T) * n < 16                ? sizeof(T) * n
                                                   : 16) Pack {
  T values[n];
};

// How the numbers of an array are stored whose elements are floats to a kernel.
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

template <std::size_t K, std::size_t... input, class Out, class F, class... In>
TANDEM_HOST_DEVICE void apply(const std::array<std::int64_t, K>& offset, std::index_sequence<input...>, FloatBits bits,
                              const F& f, Out* out, const In*... in) {
  store_one(bits, out, offset[K - 1], f(load_one(bits, in, offset[input])...));
}

template <class Out, class F, class... In>
__global__ void transform_strided(LoopNest<sizeof...(In) + 1> nest, std::int64_t numel, FloatBits bits, F f, Out* out,
                                  const In*... in) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < numel; i += step) {
    apply(nest.offsets(i), std::index_sequence_for<In...>{}, bits, f, out, in...);
  }
}

template <class Out, int width, class F, class... In>
TANDEM_HOST_DEVICE void apply_to_packs(const F& f, Pack<Out, width>& result, const Pack<In, width>... x) {
  for (int j = 0; j < width; ++j) result.values[j] = f(x.values[j]...);
}

// For arrays that are all dense: each thread takes `width` neighbours. `in_packs`: addresses allow to load them at
// once.
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

template <class T>
bool is_aligned(const T* data, int width) {
  return reinterpret_cast<std::uintptr_t>(data) % (sizeof(T) * static_cast<std::size_t>(width)) == 0;
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
  const auto fits = [](const auto* data) {
    using T = std::remove_cvref_t<decltype(*data)>;
    return reinterpret_cast<std::uintptr_t>(data) % alignof(Pack<T, width>) == 0;
  };
  launch(transform_dense<width, Out, F, In...>, blocks_for((numel + width - 1) / width, loop_threads),
         dim3(loop_threads), numel, bits, fits(out) && (fits(in) && ...), f, out, in...);
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

// The loops that elementwise::map and its neighbours take (core/array/element_dispatch.h): out[i] = f(in[i]...), for
// arrays of any strides where `any_strides`, else for dense ones.
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
        return launch(transform_strided<Out, F, typename In::type...>, blocks_for(out.numel(), loop_threads),
                      dim3(loop_threads), nest, out.numel(), bits, f, to,
                      static_cast<const typename In::type*>(in.array.raw())...);
    }
    transform_neighbours(out.numel(), bits, f, to, static_cast<const typename In::type*>(in.array.raw())...);
  }
};
using Loops = LoopsOf<true>;
using DenseLoops = LoopsOf<false>;

// Whether the arrays are dense, in one order.
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
