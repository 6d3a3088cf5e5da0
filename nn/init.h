// Initial values of parameters, drawn as PyTorch's torch.nn.init draws them: from the same seed the same numbers, those
// of the uniform functions to the bit, those of the normal ones but for the rounding of log, sin and cos.
//
//   for (auto& [name, tensor] : net.parameters())
//     if (tensor.shape().ndim() > 1) nn::init::xavier_uniform_(tensor);
//
// Functions whose names end in _ write over a Tensor of any floating dtype on any device and record no history. Numbers
// are drawn on the host, in row-major order.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/random/random.h>

#include <optional>

namespace tandem::nn::init {

void uniform_(const Tensor& tensor, double low = 0, double high = 1,
              Generator& generator = default_generator());  // in [low, high)
void normal_(const Tensor& tensor, double mean = 0, double std = 1, Generator& generator = default_generator());
// Normal, but drawn anew outside of [low, high].
void trunc_normal_(const Tensor& tensor, double mean = 0, double std = 1, double low = -2, double high = 2,
                   Generator& generator = default_generator());
void constant_(const Tensor& tensor, double value);
void ones_(const Tensor& tensor);
void zeros_(const Tensor& tensor);
// (rows, columns): ones on the diagonal.
void eye_(const Tensor& tensor);
// A weight of a convolution in 1 to 3 dimensions, (out, in, ...), that hands its input through: the first channels of
// each group of outputs copy those of the input.
void dirac_(const Tensor& tensor, std::int64_t groups = 1);

enum class Nonlinearity { linear, sigmoid, tanh, relu, leaky_relu, selu };
// By how much a layer's weights must be larger because of what follows; of leaky_relu with its negative slope (0.01).
double calculate_gain(Nonlinearity nonlinearity, std::optional<double> negative_slope = std::nullopt);

// The numbers of inputs that one output sums over and of outputs that one input feeds, from a weight (out, in, ...).
// Error below 2 dimensions.
std::int64_t fan_in(const Shape& weight);
std::int64_t fan_out(const Shape& weight);

// Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", AISTATS 2010:
// std = gain * sqrt(2 / (fan_in + fan_out)).
void xavier_uniform_(const Tensor& tensor, double gain = 1, Generator& generator = default_generator());
void xavier_normal_(const Tensor& tensor, double gain = 1, Generator& generator = default_generator());

enum class FanMode { fan_in, fan_out };  // keep the variance of the forward pass, or of the backward pass
struct KaimingOptions {
  double a = 0;  // negative slope, for leaky_relu
  FanMode mode = FanMode::fan_in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
};
// He et al., arXiv:1502.01852: std = gain / sqrt(fan).
void kaiming_uniform_(const Tensor& tensor, const KaimingOptions& options = {},
                      Generator& generator = default_generator());
void kaiming_normal_(const Tensor& tensor, const KaimingOptions& options = {},
                     Generator& generator = default_generator());

// Rows (or columns, if there are fewer) orthonormal, times gain; (rows, ...) counts as (rows, everything else).
// Saxe et al., arXiv:1312.6120.
void orthogonal_(const Tensor& tensor, double gain = 1, Generator& generator = default_generator());
// (rows, columns), normal, with a share of zeros in every column. Martens, "Deep learning via Hessian-free
// optimization", ICML 2010.
void sparse_(const Tensor& tensor, double sparsity, double std = 0.01, Generator& generator = default_generator());

// New Arrays, for constructors. U(-bound, bound):
Array uniform(const Shape& shape, double bound, Generator& generator = default_generator());
// What PyTorch gives the weights of Linear (out, in) and Conv2d (out, in, kh, kw): kaiming_uniform_ with a = sqrt(5),
// which makes the bound 1 / sqrt(fan_in).
Array kaiming_uniform(const Shape& shape, Generator& generator = default_generator());

}  // namespace tandem::nn::init
