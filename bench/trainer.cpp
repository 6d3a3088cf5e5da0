// The program that bench/trainer times: the same training as a handwritten loop, with Trainer::step, and with
// Trainer::fit. Answers each line "WHAT WAY STEPS" with the seconds for STEPS steps, measured from the first forward
// pass on. WHAT: mnist or empty.
#include <tandem/core/ops.h>
#include <tandem/tandem.h>

#include <chrono>
#include <iostream>

using namespace tandem;
using namespace tandem::distributed;

namespace {

using Clock = std::chrono::steady_clock;

// A model with one number, whose steps cost only what the loop around them costs.
struct Empty : nn::Module {
  Tensor weight = add_parameter("weight", ops::zeros({1}));
  Tensor forward(const Tensor&) override { return weight; }
};

struct Task {
  const data::Dataset& samples;
  std::int64_t batch_size;
  std::function<std::unique_ptr<nn::Module>()> make_model;
  std::function<Tensor(nn::Module&, const data::Batch&)> loss_of;
};

double seconds(const Task& task, const std::string& way, std::int64_t steps) {
  TrainingOptions options("trainer_side", "");
  options.quiet = true;
  options.max_steps = steps;
  options.batch_size = task.batch_size;
  options.epochs = 1 << 30;
  const auto group = init();
  data::Loader loader(task.samples, options.loader_options(*group));
  manual_seed(1);
  const auto model = task.make_model();
  std::optional<Clock::time_point> start;
  Clock::time_point end;
  const auto loss_of = [&](const data::Batch& batch) {
    if (!start) start = Clock::now();
    return task.loss_of(*model, batch);
  };
  if (way == "plain") {
    DistributedDataParallel ddp(*model, group);
    optim::SGD optimizer(model->parameters(), {.lr = 1e-3, .momentum = 0.9});
    Array total = ops::scalar(0);
    std::int64_t done = 0;
    for (std::int64_t epoch = 0; done < steps; ++epoch) {
      for (auto& batch : loader.epoch(epoch)) {
        optimizer.zero_grad();
        const Tensor loss = ddp.forward([&] { return loss_of(batch); });
        loss.backward();
        optimizer.step();
        ops::add_(total, loss.value().reshape({}));
        if (++done == steps) break;
      }
    }
    end = Clock::now();
  } else {
    Trainer trainer(options, group, *model);
    optim::SGD optimizer(model->parameters(), {.lr = 1e-3, .momentum = 0.9});
    trainer.use(optimizer);
    trainer.after_step([&] {
      if (trainer.steps() == steps) end = Clock::now();
    });
    if (way == "fit") trainer.fit(loader, loss_of);
    else
      for (auto& batch : trainer.batches(loader)) trainer.step(loss_of(batch));
  }
  return std::chrono::duration<double>(end - *start).count();
}

}  // namespace

int main(int, char** argv) {
  const data::Mnist images(argv[1], data::Split::train);
  const data::ArrayDataset nothing(ops::zeros({1000, 1}), ops::zeros({1000}, DType::i64));
  const Task mnist{
      images, 100, [] { return std::make_unique<nn::models::MnistNet>(); },
      [](nn::Module& model, const data::Batch& batch) { return cross_entropy(model(batch.inputs), batch.targets); }};
  const Task empty{nothing, 1, [] { return std::make_unique<Empty>(); },
                   [](nn::Module& model, const data::Batch& batch) { return model(batch.inputs); }};
  std::string what, way;
  for (std::int64_t steps = 0; std::cin >> what >> way >> steps;)
    std::cout << seconds(what == "mnist" ? mnist : empty, way, steps) << std::endl;
}
