// The 16-bit copies of f32 parameters that operations read under an Autocast.
#pragma once

#include <tandem/autograd/annexes.h>
#include <tandem/autograd/tensor.h>
#include <tandem/core/base/temporarily.h>

#include <optional>

namespace tandem {

namespace autograd {

// Returns `value`, a view of `parameter`, in `dtype`. The result is dense in the order of `value` if `value` is dense.
Array low_weight(const Tensor& parameter, const Array& value, DType dtype);

// Returns `bias` for an operation on x, or nullopt if `bias` is undefined. The CPU's kernels accept a bias of any
// dtype.
std::optional<Array> low_bias(const Tensor& bias, const Array& x);

// The scope of an Autocast. The copies are freed when the outermost scope ends.
class LowWeightScope : NoCopy {
 public:
  LowWeightScope();
  ~LowWeightScope();
};

// Another way to make the copies that a GPU reads. low_weight() calls it under an Autocast on this thread.
struct LowWeightCopies {
  Array (*make)(const Tensor& parameter, const Array& value, DType dtype);  // see low_weight()
  void (*end)();  // called when the outermost Autocast on this thread ends
};
inline constinit AnnexList<LowWeightCopies> low_weight_copies{add_autograd_annexes};  // the first one is used

}  // namespace autograd
}  // namespace tandem
