#pragma once

#include <tandem/core/backend.h>
#include <tandem/optim/optimizer.h>

namespace tandem::optim {

using tandem::SgdOptions;  // lr, momentum, dampening, weight_decay, nesterov

struct SgdGroup {
  std::vector<NamedTensor> parameters;
  SgdOptions options;
};

// Stochastic gradient descent with momentum, as PyTorch defines it:
//   g = grad + weight_decay * p
//   v = g at first, then momentum * v + (1 - dampening) * g
//   p = p - lr * (nesterov ? g + momentum * v : v)
// The parameters (f32) of a group move into one block of memory, and so does their momentum. All of a group are on one
// device, and stay there from now on.
class SGD : public Optimizer {
 public:
  SGD(std::vector<NamedTensor> parameters, const SgdOptions& options);
  explicit SGD(std::vector<SgdGroup> groups);

  void step() override;
  void zero_grad() override;
  std::vector<Tensor> parameters() const override;
  std::vector<NamedArray> state_dict() const override;
  void load_state_dict(const std::vector<NamedArray>& state) override;

  int group_count() const { return static_cast<int>(groups_.size()); }
  double lr(int group = 0) const override { return groups_.at(group).options.lr; }
  void set_lr(double lr);  // of every group
  void set_lr(double lr, int group) { groups_.at(group).options.lr = lr; }

 private:
  struct Entry {
    NamedTensor parameter;
    Array momentum;  // undefined where momentum is 0
    bool momentum_started = false;
  };
  struct Group {
    SgdOptions options;
    Device device;
    std::vector<Entry> entries;
  };
  std::vector<Group> groups_;
};

}  // namespace tandem::optim
