// Trains a small convolutional network on MNIST, on one process or several: tandemrun --nproc-per-node 2 mnist
#include <tandem/tandem.h>

#include <iomanip>
#include <iostream>

using namespace tandem;
using namespace tandem::distributed;

// Prints the mean loss and the accuracy on all images of `tests`.
void show(int epoch, nn::Module& model, const data::Dataset& tests) {
  const NoGrad no_grad;
  const nn::EvaluationMode evaluation(model);
  double loss = 0, right = 0;
  data::Loader loader(tests, {.batch_size = 500});
  for (auto& [x, label] : loader) {
    const Tensor scores = model(x);
    loss += cross_entropy(scores, label, {.reduction = LossReduction::sum}).item();
    right += sum(argmax(scores, 1) == label).item();
  }
  const auto all = static_cast<double>(tests.size());
  std::cout << std::fixed << "Epoch " << epoch + 1 << ": test loss " << std::setprecision(4) << loss / all
            << ", test accuracy " << std::setprecision(2) << 100 * right / all << " %" << std::endl;
}

struct Net : nn::Module {
  nn::Sequential& layer1 = add("layer1", nn::Sequential{nn::Conv2d(1, 16, 5, {.padding = 2}), nn::BatchNorm2d(16),
                                                        nn::ReLU(), nn::MaxPool2d(2)});
  nn::Sequential& layer2 = add("layer2", nn::Sequential{nn::Conv2d(16, 32, 5, {.padding = 2}), nn::BatchNorm2d(32),
                                                        nn::ReLU(), nn::MaxPool2d(2)});
  nn::Linear& fc = add("fc", nn::Linear(7 * 7 * 32, 10));

  Tensor forward(const Tensor& x) override { return fc(flatten(layer2(layer1(x)), 1)); }
};

int main(int argc, char** argv) {
  return run_program(argc, argv, {"mnist", "(tandemrun --nproc-per-node 2 mnist: on two processes)"}, [] {
    manual_seed(0);
    auto group = init();
    const auto folder = mnist_folder(*group);
    data::Mnist images(folder, data::Split::train), tests(folder, data::Split::test);
    data::Loader loader(images, {.batch_size = 100, .shard = shard_of(*group), .shuffle = true});
    Net model;
    DistributedDataParallel ddp(model, group);
    optim::SGD optimizer(model.parameters(), {.lr = 0.02, .momentum = 0.9});
    for (int epoch = 0; epoch < 5; ++epoch) {
      for (auto& [x, label] : loader) {  // each pass is a new epoch, in a new order
        optimizer.zero_grad();
        cross_entropy(ddp(x), label).backward();
        optimizer.step();
      }
      if (group->rank() == 0) show(epoch, model, tests);
    }
  });
}
