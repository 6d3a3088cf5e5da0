// DiLoCo and local SGD: every rank trains alone for many steps, and then the ranks average their weights.
#pragma once

#include <tandem/distributed/strategies/flat_parameters.h>
#include <tandem/optim/sgd.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace tandem::distributed {

// The outer optimizer of local SGD. The mean of the ranks' parameters replaces the parameters.
constexpr optim::SGDOptions local_sgd{.lr = 1};

struct DiLoCoOptions {
  std::int64_t inner_steps = 50;  // of each rank, from one outer step to the next
  optim::SGDOptions outer = {.lr = 0.7, .momentum = 0.9, .nesterov = true};  // the paper's, or local_sgd
};

// Training with few messages:
//
//   DiLoCo diloco(model, group, {.inner_steps = 500});        // every rank now holds rank 0's parameters and buffers
//   optim::Adam optimizer(model.parameters(), {.lr = 4e-4});  // the inner optimizer
//   for (auto& [images, labels] : loader) {
//     model.zero_grad();
//     loss(model(images), labels).backward();  // the gradients of this rank's samples
//     optimizer.step();                        // an inner step
//     diloco.step();                           // every 500th call makes an outer step
//   }
//
// Only outer steps send anything: one all-reduce of the trained parameters and of the floating-point buffers. The
// shared values are the parameters after the last outer step. The shared values minus the mean of the ranks' parameters
// are the gradient of the outer optimizer, which updates the shared values. They then replace the parameters of every
// rank. Floating-point buffers, such as running statistics, become their mean. Integer buffers, such as counters,
// become rank 0's. Each rank keeps the state of its own inner optimizer. The outer optimizer is SGD. With local_sgd,
// and one inner step of SGD without momentum, the weights are those of DistributedDataParallel, up to rounding.
//
// The model must outlive the DiLoCo. Only one thread may use it. (Douillard et al., "DiLoCo: Distributed
// low-communication training of language models", arXiv:2311.08105; Stich, "Local SGD converges fast and communicates
// little", ICLR 2019.)
class DiLoCo {
 public:
  // Collective. Throws an Error if a floating-point buffer has another dtype than the parameters.
  DiLoCo(nn::Module& model, std::shared_ptr<ProcessGroup> group, const DiLoCoOptions& options = {});

  // Counts an inner step, and makes an outer step if one is due. Then returns true, and all ranks hold the same
  // weights. An outer step is collective. Throws an Error if the set of trained parameters has changed.
  bool step();

  // Between two outer steps, the ranks hold different weights. use_mean() replaces the model's parameters and
  // floating-point buffers by their means over the ranks, for example to evaluate or to save them. use_own() restores
  // those of this rank bit for bit. Call it before the next inner step. Right after an outer step, both do nothing. A
  // second call does nothing either. use_mean() is collective.
  void use_mean();
  void use_own();

  // Makes the current parameters the shared values, as at the start. Every rank must hold the same. For programs that
  // load weights after the construction.
  void restart();

  // The state on which the next steps depend, and which is the same on all ranks: the number of inner steps since the
  // last outer step, the shared values, and the momentum. After an outer step, the shared values are left out, because
  // they are the model's parameters. Loading starts with restart(). It throws an Error if an array has another shape.
  std::vector<NamedArray> state_dict() const;
  void load_state_dict(const std::vector<NamedArray>& state);
  // The values that use_own() will restore. Empty if the model holds this rank's own values now.
  std::vector<NamedArray> rank_state_dict() const;
  void load_rank_state_dict(const std::vector<NamedArray>& state);

 private:
  void gather();  // copies the model's values to the message
  void average();
  void scatter();  // copies the message to the model
  Array shared_part() const { return message_.memory.slice(0, 0, shared_.numel()); }

  nn::Module& model_;
  const std::shared_ptr<ProcessGroup> group_;
  const std::int64_t inner_steps_;
  const std::size_t trained_;              // the number of trained parameters
  const std::vector<NamedTensor> values_;  // the trained parameters, then the floating-point buffers
  const FlatParameters message_;           // the numbers of values_
  Tensor shared_;                          // the shared values, in the order of the message
  optim::SGD outer_;                       // updates shared_
  std::int64_t steps_ = 0;                 // inner steps since the last outer step
  Array own_;                              // after use_mean(): this rank's message; otherwise undefined
};

}  // namespace tandem::distributed
