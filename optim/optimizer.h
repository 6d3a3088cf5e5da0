// Optimizer: moves parameters along their gradients.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/named_array.h>

#include <vector>

namespace tandem::optim {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // One update from the gradients that are there; a parameter without gradient stays as it is. Gradients are only read.
  virtual void step() = 0;
  virtual void zero_grad() = 0;
  // What it moves: handles of the live parameters, of all groups.
  virtual std::vector<Tensor> parameters() const = 0;
  // The learning rate of the next step, of the given parameter group.
  virtual double lr(int group = 0) const = 0;

  // What the next step depends on besides the parameters: "layer1.0.weight/momentum". Empty before the first step.
  virtual std::vector<NamedArray> state_dict() const = 0;
  // Error when an entry fits no parameter; nothing is changed then.
  virtual void load_state_dict(const std::vector<NamedArray>& state) = 0;
};

}  // namespace tandem::optim
