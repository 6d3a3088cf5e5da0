// Element-wise loops over arrays of one shape. A thread takes one element or a few neighbours.
#pragma once

#include <tandem/core/array/loop_nest.h>
#include <tandem/core/cuda/launch.cuh>

#include <utility>

namespace tandem::cuda {

inline constexpr int loop_threads = 256;

template <class T, int n>
struct alignas(sizeof(T) * n) Pack {
  T values[n];
};

template <std::size_t K, std::size_t... input, class Out, class F, class... In>
TANDEM_HOST_DEVICE void apply(const std::array<std::int64_t, K>& offset, std::index_sequence<input...>, const F& f,
                              Out* out, const In*... in) {
  out[offset[K - 1]] = f(in[offset[input]]...);
}

template <class Out, class F, class... In>
__global__ void transform_strided(LoopNest<sizeof...(In) + 1> nest, std::int64_t numel, F f, Out* out,
                                  const In*... in) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < numel; i += step) {
    apply(nest.offsets(i), std::index_sequence_for<In...>{}, f, out, in...);
  }
}

template <class Out, int width, class F, class... In>
TANDEM_HOST_DEVICE void apply_to_packs(const F& f, Pack<Out, width>& result, const Pack<In, width>... x) {
  for (int j = 0; j < width; ++j) result.values[j] = f(x.values[j]...);
}

// For arrays that are all dense: each thread takes `width` neighbours, which are 16 bytes of the widest type.
template <int width, class Out, class F, class... In>
__global__ void transform_dense(std::int64_t numel, F f, Out* out, const In*... in) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x * width;
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * width;
  for (std::int64_t i = first; i < numel; i += step) {
    if (i + width <= numel) {
      Pack<Out, width> result;
      apply_to_packs(f, result, *reinterpret_cast<const Pack<In, width>*>(in + i)...);
      *reinterpret_cast<Pack<Out, width>*>(out + i) = result;
    } else {
      for (std::int64_t j = i; j < numel; ++j) out[j] = f(in[j]...);
    }
  }
}

template <class T>
bool is_aligned(const T* data, int width) {
  return reinterpret_cast<std::uintptr_t>(data) % (sizeof(T) * static_cast<std::size_t>(width)) == 0;
}

// out[i] = f(in[i]...)
template <class Out, class F, class... In>
void transform(const LoopNest<sizeof...(In) + 1>& nest, std::int64_t numel, F f, Out* out, const In*... in) {
  if (numel == 0) return;
  constexpr std::size_t widest = std::max({sizeof(Out), sizeof(In)...});
  constexpr int width = static_cast<int>(16 / widest);
  if (nest.is_dense() && is_aligned(out, width) && (is_aligned(in, width) && ...)) {
    launch(transform_dense<width, Out, F, In...>, blocks_for((numel + width - 1) / width, loop_threads),
           dim3(loop_threads), numel, f, out, in...);
  } else {
    launch(transform_strided<Out, F, In...>, blocks_for(numel, loop_threads), dim3(loop_threads), nest, numel, f, out,
           in...);
  }
}

// The loops that elementwise::map and its neighbours take (core/array/element_dispatch.h).
struct Loops {
  template <class T>
  using element_t = T;

  template <class Out, class F>
  static void transform(const Array& out, F f) {
    cuda::transform(LoopNest<1>({&out}), out.numel(), f, static_cast<Out*>(out.raw()));
  }
  template <class Out, class In, class F>
  static void transform(const Array& a, const Array& out, F f) {
    cuda::transform(LoopNest<2>({&a, &out}), out.numel(), f, static_cast<Out*>(out.raw()), pointer<In>(a));
  }
  template <class Out, class In, class F>
  static void transform(const Array& a, const Array& b, const Array& out, F f) {
    cuda::transform(LoopNest<3>({&a, &b, &out}), out.numel(), f, static_cast<Out*>(out.raw()), pointer<In>(a),
                    pointer<In>(b));
  }
  template <class Out, class In, class F>
  static void transform(const Array& a, const Array& b, const Array& c, const Array& out, F f) {
    cuda::transform(LoopNest<4>({&a, &b, &c, &out}), out.numel(), f, static_cast<Out*>(out.raw()), pointer<In>(a),
                    pointer<In>(b), pointer<In>(c));
  }
  template <class T, class F>
  static void select(const Array& condition, const Array& a, const Array& b, const Array& out, F f) {
    cuda::transform(LoopNest<4>({&condition, &a, &b, &out}), out.numel(), f, static_cast<T*>(out.raw()),
                    pointer<bool>(condition), pointer<T>(a), pointer<T>(b));
  }

 private:
  template <class T>
  static const T* pointer(const Array& a) {
    return static_cast<const T*>(a.raw());
  }
};

}  // namespace tandem::cuda
