// DType: the element type of an Array, and functions that call code with the C++ type of a DType.
#pragma once

#include <tandem/core/base/check.h>
#include <tandem/core/base/half.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <type_traits>

namespace tandem {

enum class DType : std::uint8_t { f32, f64, bf16, f16, i64, i32, u8, boolean };

constexpr std::size_t size_of(DType dtype) {
  constexpr std::size_t sizes[] = {4, 8, 2, 2, 8, 4, 1, 1};
  return sizes[static_cast<std::size_t>(dtype)];
}

constexpr const char* name_of(DType dtype) {
  constexpr const char* names[] = {"f32", "f64", "bf16", "f16", "i64", "i32", "u8", "bool"};
  return names[static_cast<std::size_t>(dtype)];
}

constexpr bool is_floating(DType dtype) { return dtype <= DType::f16; }

inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name_of(dtype); }

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  else if constexpr (std::is_same_v<T, double>) return DType::f64;
  else if constexpr (std::is_same_v<T, bfloat16>) return DType::bf16;
  else if constexpr (std::is_same_v<T, float16>) return DType::f16;
  else if constexpr (std::is_same_v<T, std::int64_t>) return DType::i64;
  else if constexpr (std::is_same_v<T, std::int32_t>) return DType::i32;
  else if constexpr (std::is_same_v<T, std::uint8_t>) return DType::u8;
  else {
    static_assert(std::is_same_v<T, bool>, "no DType stands for this C++ type");
    return DType::boolean;
  }
}

// Returns the dtype in which an element-wise operation computes for two operands. If both are floating or both are
// integers, it is the wider dtype. Floating dtypes take precedence over integers. bf16 with f16 gives f32, as in
// PyTorch.
DType promote(DType a, DType b);

// Calls f(T{}) with the C++ type of `dtype`. Throws an Error if the dtype is not floating. `operation` names the caller
// in the message.
template <class F>
decltype(auto) dispatch_floating(DType dtype, const char* operation, F&& f) {
  switch (dtype) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    case DType::bf16: return f(bfloat16{});
    case DType::f16: return f(float16{});
    default: detail::fail(operation, ": needs a floating dtype, got ", dtype);
  }
}

// Like dispatch_floating(), but accepts every dtype except bool.
template <class F>
decltype(auto) dispatch_number(DType dtype, const char* operation, F&& f) {
  switch (dtype) {
    case DType::i64: return f(std::int64_t{});
    case DType::i32: return f(std::int32_t{});
    case DType::u8: return f(std::uint8_t{});
    case DType::boolean: detail::fail(operation, ": needs numbers, got ", dtype);
    default: return dispatch_floating(dtype, operation, f);
  }
}

// Like dispatch_floating(), but accepts every dtype.
template <class F>
decltype(auto) dispatch(DType dtype, F&& f) {
  if (dtype == DType::boolean) return f(bool{});
  return dispatch_number(dtype, "dispatch", f);
}

// Calls f(Bits{}) with the unsigned integer that has the size of `dtype`. That is enough for code that only moves
// elements.
template <class F>
decltype(auto) dispatch_bits(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 1: return f(std::uint8_t{});
    case 2: return f(std::uint16_t{});
    case 4: return f(std::uint32_t{});
    default: return f(std::uint64_t{});
  }
}

// Returns whether `dtype` can represent `value` after its fraction is cut off.
inline bool can_hold(DType dtype, double value) {
  if (is_floating(dtype) || dtype == DType::boolean) return true;
  const double limit = dtype == DType::i64 ? 0x1p63 : dtype == DType::i32 ? 0x1p31 : 0x1p8;
  const double whole = std::trunc(value);
  return whole < limit && whole >= (dtype == DType::u8 ? 0 : -limit);
}

// Returns the dtype of sums and statistics of floating numbers: f64 for f64, otherwise f32.
constexpr DType compute_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// The C++ type of arithmetic on T: 16-bit floats compute in float.
template <class T>
using compute_t = std::conditional_t<std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>, float, T>;

}  // namespace tandem
