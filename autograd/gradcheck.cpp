#include <tandem/autograd/functions.h>
#include <tandem/autograd/gradcheck.h>
#include <tandem/core/random/random.h>

#include <cmath>

namespace tandem {

void gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& function, std::vector<Tensor> inputs,
               const GradcheckOptions& options) {
  bool any = false;
  for (auto& input : inputs) {
    if (!input.requires_grad()) continue;
    any = true;
    TANDEM_CHECK(input.dtype() == DType::f64 && input.is_leaf(), "gradcheck: inputs must be f64 leaves, got ",
                 input.dtype());
    TANDEM_CHECK(input.value().is_contiguous(), "gradcheck: inputs that require a gradient must be contiguous");
    input.zero_grad();
  }
  TANDEM_CHECK(any, "gradcheck: no input requires a gradient");

  const Tensor output = function(inputs);
  TANDEM_CHECK(output.dtype() == DType::f64, "gradcheck: the output is ", output.dtype(), ", but must be f64");
  Generator generator(0);
  std::vector<double> weights(output.numel());
  for (auto& w : weights) w = generator.uniform(0.5, 1.5);
  output.backward({.gradient = Array::from(weights, output.shape()).to(output.device())});

  const auto objective = [&] {
    const NoGrad no_grad;
    const auto values = function(inputs).value().to_vector<double>();
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) sum += weights[i] * values[i];
    return sum;
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    Array value = inputs[i].value();
    const Array here = value.to(Device{}).clone();  // a CPU copy in which one element at a time is changed; it is then
                                                    // copied to the input's device
    double* x = here.data<double>();
    const Array grad = inputs[i].grad();
    TANDEM_CHECK(grad.defined(), "gradcheck: backward gave input ", i, " no gradient");
    const auto analytic = grad.to_vector<double>();
    for (std::size_t j = 0; j < analytic.size(); ++j) {
      const double before = x[j];
      x[j] = before + options.eps;
      value.copy_from(here);
      const double above = objective();
      x[j] = before - options.eps;
      value.copy_from(here);
      const double below = objective();
      x[j] = before;
      value.copy_from(here);
      const double numerical = (above - below) / (2 * options.eps);
      TANDEM_CHECK(std::abs(analytic[j] - numerical) <= options.atol + options.rtol * std::abs(numerical),
                   "gradcheck: input ", i, ", element ", j, ": backward computed ", analytic[j],
                   ", but finite differences give ", numerical);
    }
  }
}

}  // namespace tandem
