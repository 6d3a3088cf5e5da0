// The 16-bit copies of parameters in f32 that operations read under an Autocast.
#pragma once

#include <tandem/autograd/annexes.h>
#include <tandem/autograd/tensor.h>
#include <tandem/core/base/temporarily.h>

#include <optional>

namespace tandem {

namespace autograd {

// `value`, which shows the numbers of `parameter`, in `dtype`. It is dense in the order of `value`, if that is dense.
Array low_weight(const Tensor& parameter, const Array& value, DType dtype);

// `bias` for an operation on x, or nothing where it is undefined. The kernels of the CPU take a bias of any dtype.
std::optional<Array> low_bias(const Tensor& bias, const Array& x);

// The scope of an Autocast: the copies end with the outermost one.
class LowWeightScope : NoCopy {
 public:
  LowWeightScope();
  ~LowWeightScope();
};

// Another way to make the copies that a GPU reads. low_weight() calls it under an Autocast of this thread.
struct LowWeightCopies {
  Array (*make)(const Tensor& parameter, const Array& value, DType dtype);  // as low_weight()
  void (*end)();  // the outermost Autocast of this thread has ended
};
AnnexList<LowWeightCopies>& low_weight_copies();  // the first one is used

}  // namespace autograd
}  // namespace tandem
