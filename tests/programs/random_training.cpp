// Trains a random model with random optimizers, schedules and an average, which a number chooses. It uses fit() or a
// hand-written loop. With --kill-at, one rank is killed after that step.
#include <tandem/tandem.h>

#include <csignal>

using namespace tandem;
using namespace tandem::distributed;

namespace {

// The choices of the number. Each choice uses some of its random bits.
class Choices {
 public:
  explicit Choices(std::uint64_t seed) : numbers_(seed) {}
  std::int64_t up_to(std::int64_t n) {
    return static_cast<std::int64_t>(numbers_.next_u64() % static_cast<std::uint64_t>(n));
  }
  bool coin() { return up_to(2) == 1; }

 private:
  Generator numbers_;
};

nn::Sequential make_model(Choices& choices) {
  nn::Sequential model;
  if (choices.coin()) {
    model.push_back(nn::Conv2d(1, 4, 3, {.padding = 1}));
    model.push_back(nn::BatchNorm2d(4));
    model.push_back(nn::ReLU());
  } else {
    model.push_back(nn::Conv2d(1, 4, 1));
  }
  model.push_back(nn::Flatten());
  model.push_back(nn::Linear(4 * 16, 24));
  if (choices.coin()) model.push_back(nn::LayerNorm(24));
  model.push_back(nn::GELU());
  if (choices.coin()) model.push_back(nn::Dropout(0.3));
  model.push_back(nn::Linear(24, 5));
  return model;
}

std::unique_ptr<optim::Optimizer> make_optimizer(Choices& choices, const std::vector<NamedTensor>& parameters) {
  switch (choices.up_to(4)) {
    case 0: return std::make_unique<optim::SGD>(parameters, optim::SGDOptions{.lr = 0.05, .momentum = 0.9});
    case 1: return std::make_unique<optim::SGD>(parameters, optim::SGDOptions{.lr = 0.05});
    case 2: return std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.lr = 0.01});
    default: return std::make_unique<optim::RMSprop>(parameters, optim::RMSpropOptions{.lr = 0.002, .momentum = 0.5});
  }
}

void use(Trainer& trainer, Choices& choices, optim::Optimizer& optimizer) {
  switch (choices.up_to(3)) {
    case 0: return trainer.use(optimizer);
    case 1: return trainer.use(optimizer, [](std::int64_t steps) { return optim::CosineAnnealingLR{.T_max = steps}; });
    default:
      return trainer.use_by_epoch(optimizer, [](std::int64_t) { return optim::StepLR{.step_size = 1, .gamma = 0.7}; });
  }
}

}  // namespace

int main(int argc, char** argv) {
  TrainingOptions options("random_training", "Trains what a number says.");
  options.batch_size = 4;
  options.epochs = 3;
  std::int64_t number = 0, kill_at = 0, kill_rank = 0;
  options.add("--case", number, "what to train", {.min = 0});
  options.add("--kill-at", kill_at, "end after this step; 0: never", {.min = 0});
  options.add("--kill-rank", kill_rank, "the rank that ends", {.min = 0});
  return options.run(argc, argv, [&] {
    const auto group = init(options.init_options());
    Choices choices(static_cast<std::uint64_t>(number));
    Generator numbers(1);
    const data::ArrayDataset samples(ops::randn({70, 1, 4, 4}, DType::f32, {}, numbers),
                                     ops::randint(0, 5, {70}, DType::i64, {}, numbers));
    data::Loader loader(samples, options.loader_options(*group));
    auto model = make_model(choices);
    Trainer trainer(options, group, model);
    const auto all = model.parameters();
    const auto cut = choices.coin() ? all.begin() + 2 : all.end();
    const auto first = make_optimizer(choices, {all.begin(), cut});
    use(trainer, choices, *first);
    std::unique_ptr<optim::Optimizer> second;
    if (cut != all.end()) {
      second = make_optimizer(choices, {cut, all.end()});
      use(trainer, choices, *second);
    }
    if (choices.coin()) trainer.clip_norm(0.5);
    optim::ExponentialMovingAverage average(model.parameters(), model.buffers(), {.decay = 0.9});
    const bool averages = choices.coin();
    if (averages) {
      trainer.keep("average", average);
      trainer.after_step([&] { average.update(); });
    }
    trainer.after_step([&] {
      if (trainer.steps() == kill_at && group->rank() == kill_rank) std::raise(SIGKILL);
    });
    if (choices.coin()) manual_seed(options.seed + static_cast<std::uint64_t>(group->rank()));
    // The evaluation draws random numbers.
    const auto evaluate = [&] {
      return std::vector<Metric>{{"noise", static_cast<double>(default_generator().next_u64() % 100)}};
    };
    if (choices.coin()) {
      trainer.fit(
          loader, [&](const data::Batch& batch) { return cross_entropy(model(batch.inputs), batch.targets); },
          evaluate);
    } else {
      for (auto& [inputs, targets] : trainer.batches(loader, evaluate))
        trainer.step(cross_entropy(model(inputs), targets));
    }
    if (averages && group->rank() == 0 && !options.save.empty())
      save_arrays(options.save + ".average.safetensors", average.averages());
  });
}
