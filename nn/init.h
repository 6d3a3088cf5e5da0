// Initial values of parameters. The same seed gives the same numbers as torch.nn.init. Uniform numbers are bitwise
// identical. Normal numbers differ at most by the rounding of log, sin and cos.
//
//   for (auto& [name, tensor] : net.parameters())
//     if (tensor.shape().ndim() > 1) nn::init::xavier_uniform_(tensor);
//
// Functions whose names end in _ overwrite a Tensor of any floating dtype on any device and record no history. The host
// draws the numbers in row-major order.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/random/random.h>

#include <optional>

namespace tandem::nn::init {

void uniform_(const Tensor& tensor, double low = 0, double high = 1,
              Generator& generator = default_generator());  // in [low, high)
void normal_(const Tensor& tensor, double mean = 0, double std = 1, Generator& generator = default_generator());
// Normal numbers. A number outside [low, high] is redrawn.
void trunc_normal_(const Tensor& tensor, double mean = 0, double std = 1, double low = -2, double high = 2,
                   Generator& generator = default_generator());
void constant_(const Tensor& tensor, double value);
void ones_(const Tensor& tensor);
void zeros_(const Tensor& tensor);
// (rows, columns) with ones on the diagonal.
void eye_(const Tensor& tensor);

enum class Nonlinearity { linear, sigmoid, tanh, relu, leaky_relu, selu };
// The recommended gain for the weights of a layer that this function follows. leaky_relu has a negative slope (default:
// 0.01).
double calculate_gain(Nonlinearity nonlinearity, std::optional<double> negative_slope = std::nullopt);

// Computed from the shape of a weight (out, in, ...). fan_in is the number of inputs per output, and fan_out the number
// of outputs per input. Throws an Error if the weight has fewer than 2 dimensions.
std::int64_t fan_in(const Shape& weight);
std::int64_t fan_out(const Shape& weight);

// Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", AISTATS 2010:
// std = gain * sqrt(2 / (fan_in + fan_out)).
void xavier_uniform_(const Tensor& tensor, double gain = 1, Generator& generator = default_generator());
void xavier_normal_(const Tensor& tensor, double gain = 1, Generator& generator = default_generator());

enum class FanMode { fan_in, fan_out };  // the pass whose variance is preserved: forward (fan_in), backward (fan_out)
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

// Orthonormal rows times gain, or orthonormal columns if there are fewer columns than rows. A tensor (rows, ...) is
// treated as a matrix (rows, everything else). Saxe et al., arXiv:1312.6120.
void orthogonal_(const Tensor& tensor, double gain = 1, Generator& generator = default_generator());

// New Arrays, for constructors. uniform() draws numbers in [-bound, bound).
Array uniform(const Shape& shape, double bound, Generator& generator = default_generator());
// PyTorch's initial weights of Linear (out, in) and Conv2d (out, in, KH, KW): kaiming_uniform_ with a = sqrt(5). Their
// bound is 1 / sqrt(fan_in).
Array kaiming_uniform(const Shape& shape, Generator& generator = default_generator());

}  // namespace tandem::nn::init
