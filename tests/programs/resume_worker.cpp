// Trains a small network on noise. Many parts of its state differ between ranks: random numbers for dropout, PowerSGD
// from an early step on, and gradients that are ready in an unexpected order.
#include <tandem/tandem.h>

using namespace tandem;
using namespace tandem::distributed;

// The layers are registered in the reverse order of their use, so the buckets are rebuilt after the first step. All
// gradients together are too large for Gloo to send directly to each rank.
struct Net : nn::Module {
  nn::Linear& last = add("last", nn::Linear(128, 10));
  nn::Linear& middle = add("middle", nn::Linear(256, 128));
  nn::Linear& first = add("first", nn::Linear(64, 256));
  double dropout = 0;
  Tensor forward(const Tensor& x) override {
    const Tensor hidden = tandem::dropout(relu(first(x)), dropout, is_training());
    return last(relu(middle(hidden)));
  }
};

int main(int argc, char** argv) {
  TrainingOptions options("resume_worker", "Trains a small network on noise.");
  options.batch_size = 4;
  double lr = 0.1;
  std::int64_t start_step = 2;
  Net model;
  options.add("--lr", lr, "learning rate", {.min = 0});
  options.add("--dropout", model.dropout, "fraction that is dropped, by random numbers of each rank's own", {.min = 0});
  options.add("--start-step", start_step, "steps before PowerSGD begins", {.min = 0});
  return options.run(argc, argv, [&] {
    const auto group = init(options.init_options());
    Generator numbers(1);
    const data::ArrayDataset samples(ops::randn({96, 64}, DType::f32, {}, numbers),
                                     ops::randint(0, 10, {96}, DType::i64, {}, numbers));
    data::Loader loader(samples, {.batch_size = options.batch_size, .shard = shard_of(*group), .shuffle = true});
    Trainer trainer(options, group, model);
    if (options.compress == Compression::powersgd)
      trainer.ddp().set_communication_hook(powersgd_hook({.start_step = start_step, .seed = options.seed}));
    optim::SGD optimizer(model.parameters(), {.lr = lr, .momentum = 0.9});
    trainer.use(optimizer);
    manual_seed(options.seed + static_cast<std::uint64_t>(group->rank()));
    for (auto& [inputs, labels] : trainer.batches(loader)) trainer.step(cross_entropy(model(inputs), labels));
  });
}
