#include <tandem/core/ops/dropout.h>

namespace tandem::ops {

Array dropout(const Array& x, std::uint64_t key, double p, bool channels_last) {
  TANDEM_CHECK(is_floating(x.dtype()), "dropout: needs a floating array, got ", x.shape(), ' ', x.dtype());
  const Array in = channels_last ? x.channels_last() : x.contiguous();
  const Array y = channels_last ? Array::empty_channels_last(x.shape(), x.dtype(), x.device())
                                : Array::empty(x.shape(), x.dtype(), x.device());
  if (x.numel() > 0) backend(x.device()).dropout(in, key, p, y);
  return y;
}

}  // namespace tandem::ops
