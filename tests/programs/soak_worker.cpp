// Trains a tiny network for many steps. Prints how much the memory of each rank has grown since the first tenth of the
// steps.
#include <tandem/tandem.h>

#include <fstream>
#include <iostream>

using namespace tandem;
using namespace tandem::distributed;

struct Net : nn::Module {
  nn::Linear& a = add("a", nn::Linear(8, 16));
  nn::BatchNorm2d& norm = add("norm", nn::BatchNorm2d(16));
  nn::Linear& b = add("b", nn::Linear(16, 4));
  Tensor forward(const Tensor& x) override { return b(flatten(norm(reshape(a(x), {x.dim(0), 16, 1, 1})), 1)); }
};

// Returns the resident set size of this process in KiB.
double resident() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") {
      double size = 0;
      status >> size;
      return size;
    }
  }
  throw Error("/proc/self/status has no VmRSS");
}

int main(int argc, char** argv) {
  TrainingOptions options("soak_worker", "Many steps of a tiny network.");
  std::int64_t steps = 20000;
  options.add("--steps", steps, "to train", {.min = 10});
  return options.run(argc, argv, [&] {
    const auto group = init(options.init_options());
    Net model;
    convert_sync_batch_norm(model, group);
    DistributedDataParallel ddp(model, group, {.buckets = {.first_bytes = 1, .bytes = 256}});
    optim::SGD optimizer(model.parameters(), {.lr = 0.01, .momentum = 0.9});
    const Tensor input(ops::ones({4, 8}));
    const auto labels = Array::from(std::vector<std::int64_t>{0, 1, 2, 3}, {4});
    const nn::CrossEntropyLoss criterion;
    double before = 0;
    for (std::int64_t step = 0; step < steps; ++step) {
      if (step == steps / 10) before = resident();
      const Tensor loss = criterion(ddp(input), labels);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    }
    const double gained = group->max(resident() - before);
    if (group->rank() == 0) std::cout << "KiB gained: " << gained << std::endl;
  });
}
