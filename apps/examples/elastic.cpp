// Trains on MNIST, and continues when a rank is killed: tandemrun --elastic --max-restarts 3 --nproc-per-node 4 elastic
#include <tandem/tandem.h>

#include <iostream>

using namespace tandem;
using namespace tandem::distributed;

double accuracy(nn::Module& model, const data::Dataset& tests) {
  const NoGrad no_grad;
  const nn::EvaluationMode evaluation(model);
  double right = 0;
  data::Loader loader(tests, {.batch_size = 500});
  for (auto& [x, label] : loader) right += sum(argmax(model(x), 1) == label).item();
  return right / static_cast<double>(tests.size());
}

int main(int argc, char** argv) {
  return run_program(argc, argv, {"elastic", "(tandemrun --elastic --max-restarts 3 --nproc-per-node 4 elastic)"}, [] {
    manual_seed(0);
    const auto folder = data::find_mnist().folder;
    const data::Mnist images(folder, data::Split::train), tests(folder, data::Split::test);
    nn::models::MnistNet model;
    optim::SGD optimizer(model.parameters(), {.lr = 0.02, .momentum = 0.9});
    ElasticTraining training(model, optimizer, {.samples = images.size(), .batch_size = 50, .epochs = 3});
    for (std::int64_t epoch = training.epoch(); training.step([&](std::span<const std::int64_t> samples) {
           auto [x, label] = images.get(samples);
           return cross_entropy(model(x), label);
         });) {
      if (epoch == training.epoch() || !training.is_lead()) continue;
      epoch = training.epoch();
      std::cout << "Epoch " << epoch << ", " << training.size() << " ranks: test accuracy "
                << 100 * accuracy(model, tests) << " %" << std::endl;
    }
  });
}
