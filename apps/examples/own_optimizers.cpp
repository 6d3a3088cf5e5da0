// Custom optimizers. A small network learns a function of two numbers with Lion. Another learns it with Muon, which
// updates the matrices, and AdamW, which updates the other parameters.
#include <tandem/tandem.h>

#include <iostream>

#include "lion.h"
#include "muon.h"

using namespace tandem;

struct Net : nn::Module {
  nn::Sequential& layers =
      add("layers", nn::Sequential{nn::Linear(2, 64), nn::GELU(), nn::Linear(64, 64), nn::GELU(), nn::Linear(64, 1)});
  Tensor forward(const Tensor& x) override { return layers(x); }
};

// Trains for `steps` steps while each optimizer's learning rate decays to 0. Returns the last loss.
double train(Net& model, const std::vector<optim::Optimizer*>& optimizers, std::int64_t steps) {
  const Tensor x = rand({256, 2}), y = sin(4.0 * narrow(x, 1, 0, 1)) * narrow(x, 1, 1, 1);
  std::vector<optim::LrScheduler> schedules;
  for (optim::Optimizer* optimizer : optimizers)
    schedules.emplace_back(*optimizer, optim::CosineAnnealingLR{.T_max = steps});
  double last = 0;
  for (std::int64_t i = 0; i < steps; ++i) {
    for (optim::Optimizer* optimizer : optimizers) optimizer->zero_grad();
    const Tensor loss = nn::MSELoss()(model(x), y);
    loss.backward();
    for (optim::Optimizer* optimizer : optimizers) optimizer->step();
    for (optim::LrScheduler& schedule : schedules) schedule.step();
    last = loss.item();
  }
  return last;
}

int main(int argc, char** argv) {
  return distributed::run_program(argc, argv, {"own_optimizers", "(trains with Lion, and with Muon)"}, [] {
    manual_seed(0);
    Net first;
    Lion lion(first.parameters(), {.lr = 3e-3});
    const double by_lion = train(first, {&lion}, 500);
    std::cout << "Lion: loss " << by_lion << '\n';

    Net second;
    std::vector<NamedTensor> matrices, others;
    for (const NamedTensor& parameter : second.parameters())
      (parameter.tensor.shape().ndim() == 2 ? matrices : others).push_back(parameter);
    Muon muon(matrices, {.lr = 2e-2});
    optim::AdamW adamw(others, {.lr = 1e-2});
    const double by_muon = train(second, {&muon, &adamw}, 500);
    std::cout << "Muon and AdamW: loss " << by_muon << '\n';
    TANDEM_CHECK(by_lion < 1e-3 && by_muon < 1e-3, "an optimizer did not find the minimum");
  });
}
