// A few numbers (lanes) at a time, through the compiler's vector types: one source for AVX-512, AVX2 and every other
// processor.
#pragma once

#include <tandem/core/base/dtype.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace tandem::cpu {

template <class T, int L>
struct vector_of {
  typedef T type __attribute__((vector_size(L * sizeof(T))));
};
// L numbers of type T. The operators + - * / and comparisons work lane by lane. A comparison gives a mask of integers
// (-1 for true, 0 for false), which selects in `mask ? a : b`.
template <class T, int L>
using vec = typename vector_of<T, L>::type;

// Numbers of float in the longest register, where the processor has AVX2 or AVX-512.
#ifdef __AVX512F__
inline constexpr int float_lanes = 16;
#else
inline constexpr int float_lanes = 8;
#endif

// The integer type of the masks that comparisons of vectors of C give.
template <class C>
using mask_t = std::conditional_t<sizeof(C) == 8, std::int64_t, std::int32_t>;

template <class T, int L>
inline vec<T, L> load_raw(const T* from) {
  vec<T, L> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

// Loads L numbers that are stored as T, in the type that is computed in; store() is the way back (16-bit floats are
// rounded to nearest, ties to even).
template <int L, class T>
inline vec<compute_t<T>, L> load(const T* from) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    const auto bits = load_raw<std::uint16_t, L>(reinterpret_cast<const std::uint16_t*>(from));
    return std::bit_cast<vec<float, L>>(__builtin_convertvector(bits, vec<std::uint32_t, L>) << 16);
  } else if constexpr (std::is_same_v<T, float16>) {
#ifdef __AVX512F__
    if constexpr (L == 16)
      return _mm512_cvtph_ps(
          std::bit_cast<__m256i>(load_raw<std::uint16_t, L>(reinterpret_cast<const std::uint16_t*>(from))));
#endif
#ifdef __F16C__
    if constexpr (L == 8)
      return _mm256_cvtph_ps(
          std::bit_cast<__m128i>(load_raw<std::uint16_t, L>(reinterpret_cast<const std::uint16_t*>(from))));
#endif
    vec<float, L> v;
    for (int i = 0; i < L; ++i) v[i] = from[i];
    return v;
  } else {
    return load_raw<T, L>(from);
  }
}

// The larger, and the smaller, of a and b, lane by lane; b where one of them is NaN. It is one instruction of the
// processor; from the plain expression GCC makes two.
template <class V>
inline V larger(V a, V b) {
#ifdef __AVX512F__
  if constexpr (std::is_same_v<V, vec<float, 16>>) return _mm512_max_ps(a, b);
  if constexpr (std::is_same_v<V, vec<double, 8>>) return _mm512_max_pd(a, b);
#endif
  return a > b ? a : b;
}
template <class V>
inline V smaller(V a, V b) {
#ifdef __AVX512F__
  if constexpr (std::is_same_v<V, vec<float, 16>>) return _mm512_min_ps(a, b);
  if constexpr (std::is_same_v<V, vec<double, 8>>) return _mm512_min_pd(a, b);
#endif
  return a < b ? a : b;
}

// Calls f for each lane, one after the other.
template <int L, class V, class F>
inline V each_lane(V v, F f) {
  for (int i = 0; i < L; ++i) v[i] = f(v[i]);
  return v;
}

// Combines all L lanes by f(a, b), which takes vectors and numbers: the lower half with the upper half, and so on.
template <int L, class V, class F>
inline auto folded(V v, F f) {
  if constexpr (L == 1) {
    return v;
  } else if constexpr (L == 2) {
    return f(v[0], v[1]);
  } else {
    return [&]<int... i>(std::integer_sequence<int, i...>) {
      return folded<L / 2>(f(__builtin_shufflevector(v, v, i...), __builtin_shufflevector(v, v, (i + L / 2)...)), f);
    }
    (std::make_integer_sequence<int, L / 2>{});
  }
}

#ifdef __AVX512BF16__
constexpr bool has_bf16_instructions = true;
#else
constexpr bool has_bf16_instructions = false;
#endif

template <int L, class T>
inline void store(T* to, vec<compute_t<T>, L> v) {
  if constexpr (std::is_same_v<T, bfloat16> && has_bf16_instructions && L == 16) {
#ifdef __AVX512BF16__
    const auto narrow = _mm512_cvtneps_pbh(v);
    std::memcpy(static_cast<void*>(to), &narrow, sizeof narrow);
#endif
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    const auto bits = std::bit_cast<vec<std::uint32_t, L>>(v);
    const auto rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const auto quiet_nan = (bits >> 16) | 0x0040u;
    const auto is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    const auto narrow = __builtin_convertvector(is_nan ? quiet_nan : rounded, vec<std::uint16_t, L>);
    std::memcpy(static_cast<void*>(to), &narrow, sizeof narrow);
  } else if constexpr (std::is_same_v<T, float16>) {
#ifdef __AVX512F__
    if constexpr (L == 16) {
      const __m256i narrow = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      std::memcpy(static_cast<void*>(to), &narrow, sizeof narrow);
      return;
    }
#endif
#ifdef __F16C__
    if constexpr (L == 8) {
      const __m128i narrow = _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      std::memcpy(static_cast<void*>(to), &narrow, sizeof narrow);
      return;
    }
#endif
    for (int i = 0; i < L; ++i) to[i] = float16(v[i]);
  } else {
    std::memcpy(to, &v, sizeof v);
  }
}

// A mask that is set in the lanes from `first` to end - 1.
template <int L>
[[gnu::always_inline]] inline vec<std::int32_t, L> lanes_between(std::int64_t first, std::int64_t end) {
  vec<std::int32_t, L> lane;
  for (int i = 0; i < L; ++i) lane[i] = i;
  return (lane >= static_cast<std::int32_t>(first)) & (lane < static_cast<std::int32_t>(end));
}

// Loads `count` of L numbers, 0 < count <= L; the other lanes are `rest`. Memory behind the numbers is not read.
template <int L, class T>
[[gnu::always_inline]] inline vec<compute_t<T>, L> load_some(const T* from, std::int64_t count, compute_t<T> rest = 0) {
  [[maybe_unused]] const auto bits = static_cast<std::uint16_t>((1u << count) - 1);
  const auto others = vec<compute_t<T>, L>{} + rest;
#ifdef __AVX512F__
  if constexpr (std::is_same_v<T, float> && L == 16) return _mm512_mask_loadu_ps(others, bits, from);
#endif
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (sizeof(T) == 2 && L == 16) {
    T all[L];
    const __m256i loaded = _mm256_maskz_loadu_epi16(bits, from);
    std::memcpy(static_cast<void*>(all), &loaded, sizeof loaded);
    return _mm512_mask_mov_ps(others, bits, load<L>(all));
  }
#endif
#ifdef __AVX2__
  if constexpr (std::is_same_v<T, float> && (L == 8 || L == 4)) {
    const auto mask = lanes_between<L>(0, count);
    if constexpr (L == 8) return mask ? vec<float, L>(_mm256_maskload_ps(from, std::bit_cast<__m256i>(mask))) : others;
    else return mask ? vec<float, L>(_mm_maskload_ps(from, std::bit_cast<__m128i>(mask))) : others;
  }
#endif
  T all[L] = {};
  for (std::int64_t i = 0; i < count; ++i) all[i] = from[i];
  return lanes_between<L>(0, count) ? load<L>(all) : others;
}

// Stores `count` lanes, 0 < count <= L - first: lane `first` goes to *to. Memory around them is not written.
template <int L, class T>
[[gnu::always_inline]] inline void store_some(T* to, vec<compute_t<T>, L> v, std::int64_t count, int first = 0) {
  [[maybe_unused]] const auto bits = static_cast<std::uint16_t>(((1u << count) - 1) << first);
#ifdef __AVX512F__
  if constexpr (std::is_same_v<T, float> && L == 16) return _mm512_mask_storeu_ps(to - first, bits, v);
#endif
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (sizeof(T) == 2 && L == 16) {
    T all[L];
    store<L>(all, v);
    __m256i narrow;
    std::memcpy(&narrow, static_cast<const void*>(all), sizeof narrow);
    return _mm256_mask_storeu_epi16(to - first, bits, narrow);
  }
#endif
#ifdef __AVX2__
  if constexpr (std::is_same_v<T, float> && L == 8)
    return _mm256_maskstore_ps(to - first, std::bit_cast<__m256i>(lanes_between<L>(first, first + count)), v);
#endif
  T all[L];
  store<L>(all, v);
  for (std::int64_t i = 0; i < count; ++i) to[i] = all[first + i];
}

// Loads small numbers that are stored as bytes, such as places in a window, in the width of a mask. It is spelled out
// for AVX-512, where GCC would convert byte by byte.
template <int L, class M>
inline vec<M, L> load_bytes(const std::uint8_t* from) {
#ifdef __AVX512F__
  if constexpr (L == 16 && sizeof(M) == 4)
    return std::bit_cast<vec<M, L>>(_mm512_cvtepu8_epi32(std::bit_cast<__m128i>(load_raw<std::uint8_t, L>(from))));
#endif
  return __builtin_convertvector(load_raw<std::uint8_t, L>(from), vec<M, L>);
}

template <int L, class M>
inline void store_bytes(std::uint8_t* to, M v) {
#ifdef __AVX512F__
  if constexpr (L == 16 && sizeof(M) == 64) {
    const __m128i narrow = _mm512_cvtepi32_epi8(std::bit_cast<__m512i>(v));
    std::memcpy(to, &narrow, sizeof narrow);
    return;
  }
#endif
  const auto narrow = __builtin_convertvector(v, vec<std::uint8_t, L>);
  std::memcpy(to, &narrow, sizeof narrow);
}

// Calls f(std::integral_constant<int, L>, c) for blocks of L channels, which are 64 bytes of numbers in the type that
// is computed in. The channels that are left over come one by one.
template <class C, class F>
inline void for_each_channel_block(std::int64_t channels, F f) {
  constexpr int lanes = 64 / sizeof(C);
  std::int64_t c = 0;
  for (; c + lanes <= channels; c += lanes) f(std::integral_constant<int, lanes>{}, c);
  for (; c < channels; ++c) f(std::integral_constant<int, 1>{}, c);
}

}  // namespace tandem::cpu
