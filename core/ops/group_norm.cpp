// Group and layer normalisation (norm.h).
#include <tandem/core/backend/backend.h>
#include <tandem/core/ops/create.h>
#include <tandem/core/ops/norm.h>

namespace tandem::ops {

namespace {

// Returns x in the memory order that `how` describes.
Array laid_out(const GroupNorm& how, const Array& x) { return how.before > 1 ? x.channels_last() : x.contiguous(); }

Array empty_in(const GroupNorm& how, const Array& x) {
  return how.before > 1 ? Array::empty_channels_last(x.shape(), x.dtype(), x.device())
                        : Array::empty(x.shape(), x.dtype(), x.device());
}

// An array in the form that the back-ends accept: a pointer, null if the array is undefined.
struct Optional {
  Array array;
  const Array* pointer() const { return array.defined() ? &array : nullptr; }
};

Optional parameter(const GroupNorm& how, const Array& a, const Array& x, const char* name, const char* what) {
  if (!a.defined()) return {};
  TANDEM_CHECK(is_floating(a.dtype()) && a.numel() == how.channels, name, ": input ", x.shape(), " needs a floating ",
               what, " of ", how.channels, " elements, got ", a.shape(), ' ', a.dtype());
  TANDEM_CHECK(a.device() == x.device(), name, ": input is on ", x.device(), ", ", what, " on ", a.device());
  return {a.to(compute_dtype(x.dtype())).contiguous()};
}

}  // namespace

GroupNorm layer_norm_of(const Array& x, const Shape& shape, double eps, bool is_centred, const char* name) {
  TANDEM_CHECK(is_floating(x.dtype()), name, ": input must be floating, got ", x.dtype());
  const int lead = x.ndim() - shape.ndim();
  bool fits = shape.ndim() > 0 && lead >= 0;
  for (int i = 0; fits && i < shape.ndim(); ++i) fits = x.shape()[lead + i] == shape[i];
  TANDEM_CHECK(fits, name, ": the last dimensions of input ", x.shape(), " must match the normalised shape ", shape);
  std::int64_t rows = 1;
  for (int i = 0; i < lead; ++i) rows *= x.shape()[i];
  return {rows, 1, shape.product(), 1, 1, eps, is_centred};
}

GroupNorm group_norm_of(const Array& x, std::int64_t groups, double eps, const char* name) {
  TANDEM_CHECK(x.ndim() >= 2 && is_floating(x.dtype()), name, ": input must be (N, C, ...) and floating, got ",
               x.shape(), ' ', x.dtype());
  TANDEM_CHECK(groups > 0 && x.dim(1) > 0 && x.dim(1) % groups == 0, name, ": input ", x.shape(), " has ", x.dim(1),
               " channels, which can't be divided into ", groups, " groups");
  std::int64_t places = 1;
  for (int i = 2; i < x.ndim(); ++i) places *= x.shape()[i];
  const bool channels_last = x.ndim() == 4 && places > 1 && !x.is_contiguous();
  return {x.dim(0), channels_last ? places : 1, x.dim(1), channels_last ? 1 : places, groups, eps};
}

GroupNormOutput group_norm(const GroupNorm& how, const Array& x, const Array& weight, const Array& bias,
                           const char* name) {
  const Optional w = parameter(how, weight, x, name, "weight"), b = parameter(how, bias, x, name, "bias");
  const Array in = laid_out(how, x);
  const Shape groups{how.samples, how.groups};
  const GroupNormOutput out{empty_in(how, x), Array::empty(groups, compute_dtype(x.dtype()), x.device()),
                            Array::empty(groups, compute_dtype(x.dtype()), x.device())};
  if (x.numel() > 0) backend(x.device()).group_norm(how, in, w.pointer(), b.pointer(), out.y, out.mean, out.rstd);
  return out;
}

GroupNormGradients group_norm_grad(const GroupNorm& how, const Array& x, const Array& weight, const Array& mean,
                                   const Array& rstd, const Array& grad_y, bool wants_x, bool wants_weight,
                                   bool wants_bias) {
  const Optional w = parameter(how, weight, x, "group_norm", "weight");
  Optional of_x, of_weight, of_bias;
  if (wants_x) of_x.array = empty_in(how, x);
  const Shape channels{how.channels};
  const auto sums = [&] {
    return x.numel() > 0 ? Array::empty(channels, compute_dtype(x.dtype()), x.device())
                         : zeros(channels, compute_dtype(x.dtype()), x.device());
  };
  if (wants_weight) of_weight.array = sums();
  if (wants_bias) of_bias.array = sums();
  if (x.numel() > 0)
    backend(x.device())
        .group_norm_grad(how, laid_out(how, x), w.pointer(), mean, rstd, laid_out(how, grad_y), of_x.pointer(),
                         of_weight.pointer(), of_bias.pointer());
  return {of_x.array, of_weight.array, of_bias.array};
}

}  // namespace tandem::ops
