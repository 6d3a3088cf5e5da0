// A custom optimizer whose update needs whole parameters: Muon (Jordan et al., "Muon: An optimizer for hidden layers in
// neural networks", 2024). docs/optimizers.md explains it.
#pragma once

#include <tandem/autograd/functions.h>
#include <tandem/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

// Names and defaults are those of torch.optim.Muon.
struct MuonOptions {
  double lr = 1e-3;
  double weight_decay = 0.1;
  double momentum = 0.95;
  bool nesterov = true;

  void check(const char* optimizer) const {
    tandem::optim::check_option(optimizer, "lr", lr);
    tandem::optim::check_option(optimizer, "weight_decay", weight_decay);
    tandem::optim::check_fraction(optimizer, "momentum", momentum);
  }
  template <class Self, class F>
  static void visit(Self& self, F f) {
    f("lr", self.lr);
    f("weight_decay", self.weight_decay);
    f("momentum", self.momentum);
    f("nesterov", self.nesterov);
  }
};

// Approximates U V^T for a matrix G = U S V^T: five Newton-Schulz steps bring all singular values close to 1.
inline tandem::Tensor orthogonalized(const tandem::Tensor& matrix) {
  using namespace tandem;
  const bool is_tall = matrix.dim(0) > matrix.dim(1);
  Tensor x = is_tall ? transpose(matrix, 0, 1) : matrix;
  x = x / clamp(norm(x), 1e-7);
  for (int step = 0; step < 5; ++step) {
    const Tensor gram = mm(x, transpose(x, 0, 1));
    const Tensor polynomial = addmm(gram, gram, gram, -4.7750, 2.0315);  // -4.7750 gram + 2.0315 gram^2
    x = addmm(x, polynomial, x, 3.4445);
  }
  return is_tall ? transpose(x, 0, 1) : x;
}

// m = momentum * m + (1 - momentum) * g,  o = orthogonalized(momentum * m + (1 - momentum) * g)
// p = p * (1 - lr * weight_decay) - lr * sqrt(max(1, rows / columns)) * o
class Muon : public tandem::optim::OptimizerOf<MuonOptions> {
 public:
  using Group = tandem::optim::ParameterGroup<MuonOptions>;
  explicit Muon(std::vector<tandem::NamedTensor> parameters, const MuonOptions& options = {})
      : Muon({Group{std::move(parameters), options}}) {}
  explicit Muon(const std::vector<Group>& groups) : OptimizerOf("Muon::step", "Muon", groups) {
    for (const Group& group : groups)
      for (const auto& [name, parameter] : group.parameters)
        TANDEM_CHECK(parameter.shape().ndim() == 2, "Muon: ", name, " is ", parameter.shape(),
                     "; Muon is for matrices, so use AdamW for other parameters");
  }

 private:
  tandem::optim::KeptState kept_state(int) const override { return {.names = {"momentum_buffer"}}; }

  void update(int group, std::span<tandem::optim::ParameterUpdate> updates) override {
    const tandem::NoGrad no_grad;
    const MuonOptions& o = options(group);
    for (tandem::optim::ParameterUpdate& u : updates) {
      const tandem::Tensor p = u.parameter, g = u.gradient, before = u.state[0];
      const tandem::Tensor m = before + (1 - o.momentum) * (g - before);
      const tandem::Tensor step = orthogonalized(o.nesterov ? g + o.momentum * (m - g) : m);
      const double rows = static_cast<double>(p.dim(0)), columns = static_cast<double>(p.dim(1));
      const double rate = o.lr * std::sqrt(std::max(1.0, rows / columns));
      u.state[0].copy_from(m.value());
      u.parameter.copy_from(((1 - o.lr * o.weight_decay) * p - rate * step).value());
    }
  }
};
