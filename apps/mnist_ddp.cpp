// Trains a small convolutional network on MNIST, on one process or several: tandemrun --nproc-per-node 2 mnist_ddp
#include <tandem/tandem.h>

using namespace tandem;
using namespace tandem::distributed;

// The fraction of images, over all ranks, that the model classifies correctly. Each rank reads its own share, `images`.
double accuracy(nn::Module& model, ProcessGroup& group, data::Loader& images, Device device) {
  Tensor right = zeros({}, DType::i64, device);  // stays on the device, and is read once, after the last batch
  double all = 0;
  for (auto& [image, label] : images) {
    right += sum(argmax(model(image), 1) == label);
    all += static_cast<double>(label.numel());
  }
  return group.sum(right.item()) / group.sum(all);
}

int main(int argc, char** argv) {
  TrainingOptions options("mnist_ddp", "Trains a small convolutional network on MNIST, on one process or several.");
  options.epochs = 5;
  options.batch_size = 100;
  options.samples_name = "images";
  std::string data;
  double lr = 1e-4, momentum = 0, weight_decay = 0;
  options.add("--data", data, "folder of the MNIST files (TANDEM_DATA, else a download, else a sample)");
  options.add("--lr", lr, "learning rate", {.min = 0});
  options.add("--momentum", momentum, "of the gradients", {.min = 0, .max = 1});
  options.add("--weight-decay", weight_decay, "L2 penalty", {.min = 0});

  return options.run(argc, argv, [&] {
    const auto group = init(options.init_options());
    const auto folder = mnist_folder(*group, data, options.quiet);
    const auto [images, tests] = run_together(*group, [&] {
      return std::pair{data::Mnist(folder, data::Split::train).to(options.device()),
                       data::Mnist(folder, data::Split::test).to(options.device())};
    });
    check_same_samples(*group, "test images", tests);  // the Trainer checks the samples of its loader
    data::Loader loader(images, options.loader_options(*group));
    data::ExactSampler test_sampler(tests.size(), group->rank(), group->size());
    data::Loader test_loader(tests, test_sampler, {.batch_size = 500});

    nn::models::MnistNet model;
    Trainer trainer(options, group, model, [] { return std::make_unique<nn::models::MnistNet>(); });
    optim::SGD optimizer(model.parameters(), {.lr = lr, .momentum = momentum, .weight_decay = weight_decay});
    trainer.use(optimizer);
    trainer.note("data: " + std::to_string(images.size()) + " training and " + std::to_string(tests.size()) +
                 " test images in " + folder.string());
    trainer.fit(
        loader,
        [](nn::Module& net, const data::Batch& batch) { return cross_entropy(net(batch.inputs), batch.targets); },
        [&] {
          const double found = accuracy(model, *group, test_loader, options.device());
          return std::vector<Metric>{{"test_accuracy", found, Metric::Kind::fraction}};
        });
  });
}
