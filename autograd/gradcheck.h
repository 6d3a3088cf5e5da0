// gradcheck compares an operation's backward with finite differences of its forward.
#pragma once

#include <tandem/autograd/tensor.h>

#include <functional>

namespace tandem {

struct GradcheckOptions {
  double eps = 1e-6;
  double atol = 1e-5;
  double rtol = 1e-3;
};

// Differentiates a fixed weighted sum of function(inputs) with respect to every element of every input that requires a
// gradient, once with backward() and once with central differences. Inputs must be f64 leaves. Throws an Error that
// names the first element for which the two differ by more than atol + rtol * |numerical|.
void gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& function, std::vector<Tensor> inputs,
               const GradcheckOptions& options = {});

}  // namespace tandem
