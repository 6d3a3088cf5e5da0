// The differentiable operations. Names and meanings are PyTorch's.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/backend.h>

#include <memory>

namespace tandem {

class BatchNormExchange;  // autograd/batch_norm_exchange.h

// ---- Element by element (ops_elementwise.cpp). Shapes broadcast, dtypes are promoted.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor affine(const Tensor& x, double scale, double shift);  // x * scale + shift
Tensor neg(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor cast(const Tensor& x, DType dtype);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator+(const Tensor& x, double number) { return affine(x, 1, number); }
inline Tensor operator-(const Tensor& x, double number) { return affine(x, 1, -number); }
inline Tensor operator*(const Tensor& x, double number) { return affine(x, number, 0); }
inline Tensor operator/(const Tensor& x, double number) { return affine(x, 1 / number, 0); }

// ---- Over dimensions (ops_reduce.cpp); all of them when `dims` is empty.
Tensor sum(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
// The gradient goes to the maxima, divided evenly among equals.
Tensor amax(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Array argmax(const Tensor& x, std::int64_t dim, bool keepdim = false);  // i64; the first of equals

// ---- Shape (ops_shape.cpp).
Tensor reshape(const Tensor& x, const Shape& shape);  // one entry may be -1
Tensor flatten(const Tensor& x, std::int64_t from_dim = 0);
Tensor permute(const Tensor& x, const Dims& order);
Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b);

// ---- Linear algebra (ops_linear.cpp).
Tensor matmul(const Tensor& a, const Tensor& b);  // (M, K) (K, N) -> (M, N)
// x (N, in), weight (out, in), bias (out) or undefined -> (N, out)
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

// ---- Images (N, C, H, W), channels last in memory (ops_spatial.cpp).
// weight (O, C, KH, KW), bias (O) or undefined -> (N, O, OH, OW)
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window& window);
Tensor max_pool2d(const Tensor& x, const Window& window);

// Batch normalisation over all but C (Ioffe, Szegedy, arXiv:1502.03167), then what `fusion` asks for.
struct BatchNormState {
  Array running_mean, running_var;  // (C); updated in place in training
  bool training = true;
  double momentum = 0.1;
  double eps = 1e-5;
  // In training, where the rest of the batch is on other ranks; null: x is the whole batch.
  std::shared_ptr<BatchNormExchange> exchange = nullptr;
  Array num_batches = {};  // () i64, counts the batches of training; undefined where nobody counts
};
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, BatchNormState& state,
                  BatchNormFusion fusion = {});

// ---- Losses (ops_loss.cpp).
Tensor log_softmax(const Tensor& x);  // over the last dimension
Tensor softmax(const Tensor& x);
// The mean over N of -log softmax(logits)[target]. logits (N, classes), target (N) i64.
Tensor cross_entropy(const Tensor& logits, const Array& target);

}  // namespace tandem
