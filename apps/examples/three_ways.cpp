// The same training three times: as a handwritten loop, as a loop with Trainer::step, and as Trainer::fit.
// docs/trainer.md explains it. Run it alone, or: tandemrun --nproc-per-node 2 three_ways --way fit --checkpoint FOLDER
#include <tandem/tandem.h>

using namespace tandem;
using namespace tandem::distributed;

struct Net : nn::Module {
  nn::Linear& hidden = add("hidden", nn::Linear(8, 32));
  nn::Linear& head = add("head", nn::Linear(32, 3));
  Tensor forward(const Tensor& x) override { return head(relu(hidden(x))); }
};

// Points in 8 dimensions. The class of a point is the index of the largest of its first three coordinates.
data::ArrayDataset points(std::int64_t count, std::uint64_t seed) {
  Generator generator(seed);
  const Array x = randn({count, 8}, DType::f32, {}, generator);
  return data::ArrayDataset(x, argmax(x.slice(1, 0, 3), 1));
}

// The fraction of points that the model classifies correctly. Each rank counts its share.
double accuracy(nn::Module& model, ProcessGroup& group, const data::ArrayDataset& tests) {
  data::ExactSampler share(tests.size(), group.rank(), group.size());
  data::Loader loader(tests, share, {.batch_size = 100});
  double right = 0, all = 0;
  for (auto& [x, y] : loader) {
    right += sum(argmax(model(x), 1) == y).item();
    all += static_cast<double>(y.numel());
  }
  return group.sum(right) / group.sum(all);
}

void by_hand(Net& model, std::shared_ptr<ProcessGroup> group, const TrainingOptions& options,
             const data::ArrayDataset& train) {
  DistributedDataParallel ddp(model, group);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  data::Loader loader(train, options.loader_options(*group));
  optim::LrScheduler schedule(optimizer, optim::CosineAnnealingLR{.T_max = options.epochs * loader.size()});
  for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    for (auto& [x, y] : loader) {
      optimizer.zero_grad();
      cross_entropy(ddp(x), y).backward();
      optimizer.step();
      schedule.step();
    }
  }
}

void with_step(Net& model, std::shared_ptr<ProcessGroup> group, const TrainingOptions& options,
               const data::ArrayDataset& train, const data::ArrayDataset& tests) {
  Trainer trainer(options, group, model);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  trainer.use(optimizer, [](std::int64_t steps) { return optim::CosineAnnealingLR{.T_max = steps}; });
  data::Loader loader(train, options.loader_options(*group));
  const auto evaluate = [&] {
    return std::vector<Metric>{{"accuracy", accuracy(model, *group, tests), Metric::Kind::fraction}};
  };
  for (auto& [x, y] : trainer.batches(loader, evaluate)) trainer.step(cross_entropy(model(x), y));
}

void with_fit(Net& model, std::shared_ptr<ProcessGroup> group, const TrainingOptions& options,
              const data::ArrayDataset& train, const data::ArrayDataset& tests) {
  Trainer trainer(options, group, model);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  trainer.use(optimizer, [](std::int64_t steps) { return optim::CosineAnnealingLR{.T_max = steps}; });
  optim::ExponentialMovingAverage average(model.parameters(), model.buffers());
  trainer.keep("average", average);
  trainer.after_step([&] { average.update(); });
  data::Loader loader(train, options.loader_options(*group));
  trainer.fit(
      loader, [&](const data::Batch& batch) { return cross_entropy(model(batch.inputs), batch.targets); },
      [&] {
        const double found = accuracy(model, *group, tests);
        average.swap();
        const double averaged = accuracy(model, *group, tests);
        average.swap();
        return std::vector<Metric>{{"accuracy", found, Metric::Kind::fraction},
                                   {"averaged_accuracy", averaged, Metric::Kind::fraction}};
      });
}

int main(int argc, char** argv) {
  TrainingOptions options("three_ways", "Sorts points into three classes.");
  options.epochs = 3;
  options.batch_size = 20;
  std::string way = "all";
  options.add("--way", way, {"hand", "step", "fit", "all"}, "who writes the loop; all: compares the weights");
  return options.run(argc, argv, [&] {
    const auto group = init(options.init_options());
    const auto train = points(2000, 1), tests = points(500, 2);
    std::vector<std::vector<float>> weights;
    for (const std::string now : {"hand", "step", "fit"}) {
      if (way != now && way != "all") continue;
      manual_seed(options.seed);
      Net model;
      if (now == "hand") by_hand(model, group, options, train);
      if (now == "step") with_step(model, group, options, train, tests);
      if (now == "fit") with_fit(model, group, options, train, tests);
      auto& these = weights.emplace_back();
      for (const auto& [name, parameter] : model.parameters()) {
        const auto values = parameter.value().to(Device{}).to_vector<float>();
        these.insert(these.end(), values.begin(), values.end());
      }
      TANDEM_CHECK(weights.back() == weights.front(), now, " has different weights");
    }
  });
}
