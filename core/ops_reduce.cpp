#include <tandem/core/ops_reduce.h>

namespace tandem::ops {

Array reduce(Reduction op, const Array& x, const Dims& dims, bool keepdim) {
  TANDEM_CHECK(op != Reduction::argmax || dims.rank() == 1, "argmax: takes one dimension, got ", dims.rank());
  const bool needs_elements = op == Reduction::max || op == Reduction::argmax;
  TANDEM_CHECK(!needs_elements || x.numel() > 0, "max of an empty array of shape ", x.shape(),
               " is not defined");
  TANDEM_CHECK(op != Reduction::mean || is_floating(x.dtype()), "mean: needs a floating dtype, got ",
               x.dtype());
  unsigned reduced = dims.rank() == 0 ? ~0u : 0u;
  for (const auto d : dims) reduced |= 1u << normalize_dim(d, x.rank());
  Shape kept, dropped;
  for (int i = 0; i < x.rank(); ++i) {
    const bool gone = reduced >> i & 1u;
    kept.push_back(gone ? 1 : x.shape()[i]);
    if (!gone) dropped.push_back(x.shape()[i]);
  }
  const DType sum_dtype = is_floating(x.dtype()) ? x.dtype() : DType::i64;
  const DType dtype = op == Reduction::argmax ? DType::i64 : op == Reduction::max ? x.dtype() : sum_dtype;
  Array y = Array::empty(kept, dtype, x.device());
  backend(x.device()).reduce(op, x, y);
  return keepdim ? y : y.reshape(dropped);
}

Array sum_to(const Array& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int lead = x.rank() - shape.rank();
  Dims dims;
  for (int i = 0; i < x.rank(); ++i)
    if (i < lead || (shape[i - lead] == 1 && x.shape()[i] != 1)) dims.push_back(i);
  return dims.rank() == 0 ? x.reshape(shape) : reduce(Reduction::sum, x, dims, true).reshape(shape);
}

}  // namespace tandem::ops
