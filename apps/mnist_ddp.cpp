// Trains a small convolutional network on MNIST, on one process or several: tandemrun --nproc-per-node 2 mnist_ddp
#include <tandem/tandem.h>

using namespace tandem;
using namespace tandem::distributed;

// The fraction of images, over all ranks, that the model recognises. Each rank reads its own share, `images`.
double accuracy(DistributedDataParallel& ddp, ProcessGroup& group, data::Loader& images, DType dtype) {
  const NoGrad no_grad;
  const Autocast autocast(dtype);
  ddp.eval();
  Array right;  // the sum stays on the device and is read once, after the last batch
  double all = 0;
  for (auto& [image, label] : images) {
    const Array found = ops::reduce(Reduction::sum, ops::compare(functors::Equal{}, argmax(ddp(image), 1), label));
    if (right.defined()) ops::add_(right, found);
    else right = found;
    all += static_cast<double>(label.numel());
  }
  ddp.train();
  const auto sums = Array::from(std::vector<double>{right.defined() ? right.item() : 0, all}, {2});
  group.all_reduce(sums)->wait();
  return sums.data<double>()[0] / sums.data<double>()[1];
}

int main(int argc, char** argv) {
  TrainingOptions options("mnist_ddp", "Trains a small convolutional network on MNIST, on one process or several.");
  options.epochs = 5;
  options.batch_size = 100;
  std::string data;
  double lr = 1e-4, momentum = 0, weight_decay = 0;
  options.add("--data", data, "folder of the MNIST files (TANDEM_DATA, else a download, else a sample)");
  options.add("--lr", lr, "learning rate", {.min = 0});
  options.add("--momentum", momentum, "of the gradients", {.min = 0});
  options.add("--weight-decay", weight_decay, "L2 penalty", {.min = 0});

  return options.run(argc, argv, [&] {
    const auto group = init(options.init_options());
    const int rank = group->rank(), world = group->size();
    const auto folder = mnist_folder(*group, data, options.quiet);
    const auto [images, tests] = run_together(*group, [&] {
      return std::pair{data::Mnist(folder, data::Split::train).to(options.device()),
                       data::Mnist(folder, data::Split::test).to(options.device())};
    });
    data::DistributedSampler sampler(images.size(), {.rank = rank, .world = world, .seed = options.seed});
    data::Loader loader(images, sampler,
                        {.batch_size = options.batch_size, .workers = static_cast<int>(options.workers)});
    data::ExactSampler test_sampler(tests.size(), rank, world);
    data::Loader test_loader(tests, test_sampler, {.batch_size = 500});

    manual_seed(options.seed);
    nn::models::MnistNet model;
    model.to(options.device());
    if (options.sync_bn) convert_sync_batch_norm(model, group);
    DistributedDataParallel ddp(model, group, options.bucket_sizes(), options.unused);
    ddp.set_communication_hook(options.communication_hook());
    const nn::CrossEntropyLoss criterion;
    optim::SGD optimizer(model.parameters(), {.lr = lr, .momentum = momentum, .weight_decay = weight_decay});

    optim::GradScaler scaler({.enabled = options.dtype == DType::f16});
    TrainingRun run(options, group, ddp, optimizer, loader, &scaler);
    run.note("data: " + std::to_string(images.size()) + " training and " + std::to_string(tests.size()) +
             " test images in " + folder.string());
    // On a GPU the whole step is recorded once, and replayed in one call after that. With f16 nothing is recorded,
    // because the GradScaler reads a value from the GPU in each step.
    GraphedStep step(
        scaler.is_enabled() ? Device{} : options.graph_device(),
        [&](const std::vector<Array>& batch) {
          if (run.begins_step()) optimizer.zero_grad();
          const Autocast autocast(options.dtype);
          const auto local = ddp.no_sync(!run.completes_step());
          const Tensor loss = criterion(ddp(batch[0]), batch[1]);
          scaler.scale(run.weight() * loss).backward();
          if (run.completes_step()) {
            scaler.step(optimizer);
            scaler.update();
          }
          return loss.value();
        },
        [&](const std::string& why) { run.note("note: " + why); });
    while (run.next_epoch()) {
      sampler.set_epoch(run.epoch());
      for (auto& [image, label] : loader) {
        if (!run.step(step({image, label}))) break;
      }
      run.end_epoch({{"test_accuracy", accuracy(ddp, *group, test_loader, options.dtype)}});
    }
    if (options.epochs == 0) run.show({{"test_accuracy", accuracy(ddp, *group, test_loader, options.dtype)}});
    if (world > 1) run.note(ddp.report().to_string());
    run.finish();
  });
}
