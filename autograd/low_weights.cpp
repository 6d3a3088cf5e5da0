#include <tandem/autograd/low_weights.h>

namespace tandem::autograd {

namespace {
thread_local int open_scopes = 0;
}

LowWeightScope::LowWeightScope() { ++open_scopes; }

LowWeightScope::~LowWeightScope() {
  if (--open_scopes > 0) return;
  for (const LowWeightCopies& copies : low_weight_copies.entries()) copies.end();
}

Array low_weight(const Tensor& parameter, const Array& value, DType dtype) {
  if (open_scopes == 0 || value.device().is_cpu()) return value.to(dtype);
  const auto copies = low_weight_copies.entries();
  return copies.empty() ? value.to(dtype) : copies.front().make(parameter, value, dtype);
}

std::optional<Array> low_bias(const Tensor& bias, const Array& x) {
  if (!bias.defined()) return std::nullopt;
  return x.device().is_cpu() ? bias.value() : low_weight(bias, bias.value(), x.dtype());
}

}  // namespace tandem::autograd
