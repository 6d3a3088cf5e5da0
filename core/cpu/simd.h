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

// The longest register of a processor with AVX2 or AVX-512. In `mask ? a : b`, GCC would process longer vectors number
// by number.
#ifdef __AVX512F__
inline constexpr int register_bytes = 64;
#else
inline constexpr int register_bytes = 32;
#endif
inline constexpr int float_lanes = register_bytes / sizeof(float);

// The integer type of the masks that comparisons of vectors of C give.
template <class C>
using mask_t = std::conditional_t<sizeof(C) == 8, std::int64_t, std::int32_t>;

template <class T, int L>
inline vec<T, L> load_raw(const T* from) {
  vec<T, L> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

// The type in which numbers are stored. 16-bit floats are converted to a different type for computation, and back. They
// are rounded to nearest, ties to even. Other numbers stay unchanged.
template <class T>
using stored_t = std::conditional_t<std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>, std::uint16_t, T>;

template <class T, int L>
inline vec<compute_t<T>, L> widened(vec<stored_t<T>, L> stored) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return std::bit_cast<vec<float, L>>(__builtin_convertvector(stored, vec<std::uint32_t, L>) << 16);
  } else if constexpr (std::is_same_v<T, float16>) {
#ifdef __AVX512F__
    if constexpr (L == 16) return _mm512_cvtph_ps(std::bit_cast<__m256i>(stored));
#endif
#ifdef __F16C__
    if constexpr (L == 8) return _mm256_cvtph_ps(std::bit_cast<__m128i>(stored));
#endif
    vec<float, L> v = {};
    for (int i = 0; i < L; ++i) v[i] = std::bit_cast<float16>(static_cast<std::uint16_t>(stored[i]));
    return v;
  } else {
    return stored;
  }
}

template <class T, int L>
inline vec<stored_t<T>, L> narrowed(vec<compute_t<T>, L> v) {
  using Stored = vec<stored_t<T>, L>;
  if constexpr (std::is_same_v<T, bfloat16>) {
#ifdef __AVX512BF16__
    if constexpr (L == 16) return std::bit_cast<Stored>(_mm512_cvtneps_pbh(v));
#endif
    const auto bits = std::bit_cast<vec<std::uint32_t, L>>(v);
    const auto rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const auto quiet_nan = (bits >> 16) | 0x0040u;
    const auto is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return __builtin_convertvector(is_nan ? quiet_nan : rounded, Stored);
  } else if constexpr (std::is_same_v<T, float16>) {
    [[maybe_unused]] constexpr int rounding = 0;  // to nearest, ties to even
#ifdef __AVX512F__
    if constexpr (L == 16) return std::bit_cast<Stored>(_mm512_cvtps_ph(v, rounding));
#endif
#ifdef __F16C__
    if constexpr (L == 8) return std::bit_cast<Stored>(_mm256_cvtps_ph(v, rounding));
#endif
    Stored stored = {};
    for (int i = 0; i < L; ++i) stored[i] = float16(v[i]).bits;
    return stored;
  } else {
    return v;
  }
}

// Loads L numbers that are stored as T, in the type used for computation. store() does the reverse.
template <int L, class T>
inline vec<compute_t<T>, L> load(const T* from) {
  return widened<T, L>(load_raw<stored_t<T>, L>(reinterpret_cast<const stored_t<T>*>(from)));
}
template <int L, class T>
inline void store(T* to, vec<compute_t<T>, L> v) {
  const auto stored = narrowed<T, L>(v);
  std::memcpy(static_cast<void*>(to), &stored, sizeof stored);
}

// The larger, and the smaller, of a and b, lane by lane; b where one of them is NaN. The processor has one instruction
// for it, but GCC compiles the plain expression to two.
template <class V>
inline V larger(V a, V b) {
#ifdef __AVX512F__
  if constexpr (std::is_same_v<V, vec<float, 16>>) return _mm512_max_ps(a, b);
  if constexpr (std::is_same_v<V, vec<double, 8>>) return _mm512_max_pd(a, b);
#elif defined(__AVX2__)
  if constexpr (std::is_same_v<V, vec<float, 8>>) return _mm256_max_ps(a, b);
  if constexpr (std::is_same_v<V, vec<double, 4>>) return _mm256_max_pd(a, b);
#endif
  return a > b ? a : b;
}
template <class V>
inline V smaller(V a, V b) {
#ifdef __AVX512F__
  if constexpr (std::is_same_v<V, vec<float, 16>>) return _mm512_min_ps(a, b);
  if constexpr (std::is_same_v<V, vec<double, 8>>) return _mm512_min_pd(a, b);
#elif defined(__AVX2__)
  if constexpr (std::is_same_v<V, vec<float, 8>>) return _mm256_min_ps(a, b);
  if constexpr (std::is_same_v<V, vec<double, 4>>) return _mm256_min_pd(a, b);
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
    const auto stored = std::bit_cast<vec<stored_t<T>, L>>(_mm256_maskz_loadu_epi16(bits, from));
    return _mm512_mask_mov_ps(others, bits, widened<T, L>(stored));
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
  if constexpr (sizeof(T) == 2 && L == 16)
    return _mm256_mask_storeu_epi16(to - first, bits, std::bit_cast<__m256i>(narrowed<T, L>(v)));
#endif
#ifdef __AVX2__
  if constexpr (std::is_same_v<T, float> && L == 8)
    return _mm256_maskstore_ps(to - first, std::bit_cast<__m256i>(lanes_between<L>(first, first + count)), v);
#endif
  T all[L];
  store<L>(all, v);
  for (std::int64_t i = 0; i < count; ++i) to[i] = all[first + i];
}

// Loads L numbers that are stored as bytes, such as places in a window, and widens each to M, the element type of a
// mask. The function is written out for AVX-512, because GCC would convert byte by byte there.
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

// The treatment of channels that do not fill a register. With `overlap`, the last block begins so early that it ends
// with the last channel. If a pixel has fewer channels than a register, all blocks are smaller. `overlap` is faster. It
// needs an f that computes some channels twice with the same result, so f must not overwrite its input.
enum class ChannelRest { one_by_one, overlap };

// Calls f(std::integral_constant<int, L>, c) for blocks of L channels, from channel c on, that cover all channels. A
// block is one register of numbers of C, the type that is computed in, except as `rest` says.
template <class C, ChannelRest rest = ChannelRest::one_by_one, int L = register_bytes / sizeof(C), class F>
inline void for_each_channel_block(std::int64_t channels, F f) {
  constexpr bool overlaps = rest == ChannelRest::overlap;
  if constexpr (overlaps && L > 1) {
    if (channels < L) return for_each_channel_block<C, rest, L / 2>(channels, f);
  }
  std::int64_t c = 0;
  for (; c + L <= channels; c += L) f(std::integral_constant<int, L>{}, c);
  if constexpr (overlaps) {
    if (c < channels) f(std::integral_constant<int, L>{}, channels - L);
  } else {
    for (; c < channels; ++c) f(std::integral_constant<int, 1>{}, c);
  }
}

}  // namespace tandem::cpu
