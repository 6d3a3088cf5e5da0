// A project of one's own: a model learns to add two numbers, on one process or on several.
#include <tandem/tandem.h>

#include <iostream>

using namespace tandem;
using namespace tandem::distributed;

// Pairs of numbers, and their sums. docs/own_data_set.md says more.
class Sums : public data::SampleDataset {
 public:
  std::int64_t size() const override { return 4096; }
  data::Sample sample(std::int64_t index) const override {
    const float a = static_cast<float>(index % 64) / 64, b = static_cast<float>(index / 64) / 64;
    return {Array::from(std::vector<float>{a, b}, {2}), Array::from(std::vector<float>{a + b}, {1})};
  }
};

// docs/own_model.md says more.
struct Net : nn::Module {
  nn::Linear& hidden = add("hidden", nn::Linear(2, 32));
  nn::Linear& output = add("output", nn::Linear(32, 1));
  Tensor forward(const Tensor& x) override { return output(relu(hidden(x))); }
};

int main() try {
  const auto group = init();  // by itself the program is one process; tandemrun starts several
  manual_seed(0);
  const Sums sums;
  data::Loader loader(sums, {.batch_size = 32, .shard = shard_of(*group), .shuffle = true});
  Net model;
  DistributedDataParallel ddp(model, group);
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  double last = 0;
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (auto& [x, y] : loader.epoch(epoch)) {
      optimizer.zero_grad();
      const Tensor loss = mse_loss(ddp(x), y);
      loss.backward();
      optimizer.step();
      last = loss.item();
    }
    if (group->rank() == 0) std::cout << "epoch " << epoch + 1 << ": loss " << last << std::endl;
  }
  return last < 1e-3 ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "train: " << error.what() << '\n';
  report_failure(error);  // so that tandemrun can say which process failed first, and why
  return 1;
}
