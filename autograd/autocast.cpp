#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions.h>

#include <utility>

namespace tandem {

namespace {
thread_local std::optional<DType> low_dtype;
}

Autocast::Autocast(DType dtype) : dtype_(low_dtype, dtype == DType::f32 ? std::nullopt : std::optional(dtype)) {
  TANDEM_CHECK(is_floating(dtype) && dtype != DType::f64, "Autocast: dtype must be f32, bf16 or f16, got ", dtype);
}

DType autocast_dtype() { return low_dtype.value_or(DType::f32); }

Tensor autocast_low(const Tensor& x) {
  const bool lowers = low_dtype && is_floating(x.dtype()) && x.dtype() != DType::f64;
  return lowers ? cast(x, *low_dtype) : x;
}

Tensor autocast_f32(const Tensor& x) {
  return low_dtype && is_floating(x.dtype()) && x.dtype() != DType::f64 ? cast(x, DType::f32) : x;
}

void check_dtypes(const char* operation, const Tensor& x, const Tensor& weight) {
  TANDEM_CHECK(low_dtype || x.dtype() == weight.dtype(), operation, ": input and weight must have the same dtype, got ",
               x.dtype(), " and ", weight.dtype(), "; cast(x, dtype) or module.to(dtype) converts");
}

}  // namespace tandem
