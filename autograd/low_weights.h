// The 16-bit copies that a GPU reads of parameters in f32.
#pragma once

#include <tandem/autograd/tensor.h>

#include <optional>

namespace tandem::autograd {

// `value`, which shows the numbers of `parameter`, in `dtype`. It is dense in the order of `value`, if that is dense.
//
// On a GPU each conversion is a kernel, and a small network has more parameters than other work. So all parameters that
// an Autocast needs are converted by one kernel, as soon as the first of them is needed. Which they are is known from
// the last Autocast of the same thread that began with the same parameter. The copies live as long as the outermost
// Autocast. A copy is made anew when its parameter has changed.
Array low_weight(const Tensor& parameter, const Array& value, DType dtype);

// `bias` for an operation on x, or nothing where it is undefined. The kernels of the CPU take a bias of any dtype.
std::optional<Array> low_bias(const Tensor& bias, const Array& x);

// The scope of an Autocast: the copies end with the outermost one.
class LowWeightScope {
 public:
  LowWeightScope();
  ~LowWeightScope();
  LowWeightScope(const LowWeightScope&) = delete;
  LowWeightScope& operator=(const LowWeightScope&) = delete;
};

}  // namespace tandem::autograd
