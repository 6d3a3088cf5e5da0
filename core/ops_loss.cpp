#include <tandem/core/index_fault.h>
#include <tandem/core/ops_loss.h>

namespace tandem::ops {

Array log_softmax(const Array& x) {
  TANDEM_CHECK(x.rank() >= 1 && is_floating(x.dtype()), "log_softmax: needs a floating array, got ",
               x.shape(), ' ', x.dtype());
  Array y = Array::empty(x.shape(), x.dtype(), x.device());
  if (y.numel() > 0) backend(x.device()).log_softmax(x.contiguous(), y);
  return y;
}

Array log_softmax_grad(const Array& y, const Array& grad_y) {
  Array grad_x = Array::empty(y.shape(), y.dtype(), y.device());
  if (y.numel() > 0) backend(y.device()).log_softmax_grad(y, grad_y.contiguous(), grad_x);
  return grad_x;
}

CrossEntropy cross_entropy(const Array& logits, const Array& target) {
  TANDEM_CHECK(logits.rank() == 2 && is_floating(logits.dtype()),
               "cross_entropy: logits must be (N, classes) and floating, got ", logits.shape(), ' ',
               logits.dtype());
  TANDEM_CHECK(target.shape() == Shape{logits.dim(0)} && target.dtype() == DType::i64,
               "cross_entropy: target must be (", logits.dim(0), ") i64, got ", target.shape(), ' ',
               target.dtype());
  TANDEM_CHECK(target.device() == logits.device(), "cross_entropy: logits are on ", logits.device(),
               ", target on ", target.device());
  const DType dtype = logits.dtype() == DType::f64 ? DType::f64 : DType::f32;
  CrossEntropy out{Array::empty({}, dtype, logits.device()),
                   Array::empty(logits.shape(), dtype, logits.device())};
  const auto bad_row =
      backend(logits.device())
          .cross_entropy(logits.contiguous(), target.contiguous(), out.loss, out.probabilities);
  if (bad_row >= 0)
    fail(IndexFault{IndexFault::Of::cross_entropy, bad_row,
                    static_cast<std::int64_t>(target.select(0, bad_row).item()), logits.dim(1)});
  return out;
}

Array cross_entropy_grad(const CrossEntropy& forward, const Array& target, const Array& grad_loss,
                         DType dtype) {
  Array grad = Array::empty(forward.probabilities.shape(), dtype, target.device());
  backend(target.device()).cross_entropy_grad(forward.probabilities, target.contiguous(), grad_loss, grad);
  return grad;
}

}  // namespace tandem::ops
