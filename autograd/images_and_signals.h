// Helpers that operations on images (N, C, H, W) and on signals (N, C, L) share.
#pragma once

#include <tandem/autograd/functions/views.h>
#include <tandem/core/formulas/window.h>

namespace tandem {

// A signal (N, C, L) is treated as an image (N, C, 1, L). Its numbers stay where they are in memory.
enum class Kind { image, signal };

inline Array as_image(const Array& a, Kind kind) { return kind == Kind::signal && a.defined() ? a.unsqueeze(2) : a; }
inline Array as_given(const Array& a, Kind kind) { return kind == Kind::signal && a.defined() ? a.squeeze(2) : a; }

// Calls f(x, more..., kind, operation) for a batch. If x has no batch dimension, f gets a batch that holds only x, and
// the result has no batch dimension either.
template <class F, class... More>
Tensor of_batch(F f, Kind kind, const char* operation, const Tensor& x, const More&... more) {
  if (!x.defined() || x.shape().ndim() != (kind == Kind::signal ? 2 : 3)) return f(x, more..., kind, operation);
  return squeeze(f(unsqueeze(x, 0), more..., kind, operation), 0);
}

// Converts an option for both dimensions of the image. For a signal the option gives the width, and the height gets
// `none`.
inline Extent extent_of(Extent given, Kind kind, std::int64_t none, const char* operation) {
  if (kind == Kind::image) return given;
  TANDEM_CHECK(given.h == given.w, operation, ": expected one number for each option, got ", given);
  return {none, given.w};
}

inline void check_ndim(const Tensor& x, Kind kind, const char* operation, const char* what, const char* shape) {
  TANDEM_CHECK(x.defined(), operation, ": ", what, " is undefined");
  TANDEM_CHECK(x.shape().ndim() == (kind == Kind::signal ? 3 : 4), operation, ": ", what, " must be ", shape, ", got ",
               x.shape());
}

inline const char* batch_shape(Kind kind) {
  return kind == Kind::signal ? "(N, C, L) or (C, L)" : "(N, C, H, W) or (C, H, W)";
}

}  // namespace tandem
