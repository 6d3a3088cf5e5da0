// SavingJob: a rank of a small job that trains and saves checkpoints through a CheckpointFolder.
#pragma once

#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/job/together.h>
#include <tandem/distributed/strategies/zero_redundancy.h>
#include <tandem/distributed/training/checkpoints/checkpoint_folder.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/sequential.h>
#include <tandem/optim/sgd.h>

#include <support/ranks.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tandem::testing {

// An empty command line, for a group whose ranks are threads.
struct SavingOptions : distributed::TrainingOptions {
  explicit SavingOptions(const std::filesystem::path& folder) : TrainingOptions("saving_job", "") {
    checkpoint = folder.string();
    keep_last = 2;
  }
};

struct SavingJob {
  // Each of the layers of the model has n * n weights, and the optimizer has as many numbers. The random numbers differ
  // between ranks. With `divides`, the optimizer's numbers are divided among the ranks, and with `shards`, each rank
  // writes its own.
  SavingJob(Group group_, const std::filesystem::path& path, distributed::CheckpointFolderOptions writing = {},
            std::int64_t n = 8, bool divides = false, bool shards = false, int layers = 1)
      : group(std::move(group_)),
        options(path),
        model(network(n, layers)),
        zero(divides ? std::make_unique<distributed::ZeroRedundancy>(model, group) : nullptr),
        plain(divides ? nullptr : std::make_unique<distributed::DistributedDataParallel>(model, group)),
        ddp(zero ? zero->ddp() : *plain),
        optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9}),
        job(*group, ddp, scaler, zero.get()),
        folder(
            options, *group, job, [this](const std::string& line) { notes.push_back(line); }, std::move(writing)) {
    manual_seed(static_cast<std::uint64_t>(group->rank()));
    options.checkpoint_shards = shards;
    if (zero) zero->use(optimizer);
    job.add(optimizer);
    distributed::run_first(*group, [this] { folder.open(); });
  }

  static nn::Sequential network(std::int64_t n, int layers) {
    manual_seed(3);
    nn::Sequential model;
    for (int i = 0; i < layers; ++i) model.push_back(nn::Linear(n, n));
    return model;
  }
  void train() {
    ++step;
    optimizer.zero_grad();
    sum(ddp(Tensor(ops::rand({1, model.parameters()[0].tensor.value().dim(1)})))).backward();
    zero ? zero->step() : optimizer.step();
  }
  void save() {
    distributed::TrainingState state;
    state.program = "saving_job";
    state.step = step;
    state.world_size = group->size();
    state.generator = default_generator().state();
    folder.save(std::move(state), ops::scalar(static_cast<double>(step)), -1);
  }
  std::filesystem::path file(std::int64_t of_step) const {
    char name[64];
    std::snprintf(name, sizeof name, "checkpoint-0000-%08d.safetensors", static_cast<int>(of_step));
    return std::filesystem::path(options.checkpoint) /
           (name + std::string(options.checkpoint_shards ? ".index.json" : ""));
  }
  bool has(std::int64_t of_step) const { return std::filesystem::exists(file(of_step)); }

  Group group;
  SavingOptions options;
  nn::Sequential model;
  std::unique_ptr<distributed::ZeroRedundancy> zero;
  std::unique_ptr<distributed::DistributedDataParallel> plain;  // without `zero`
  distributed::DistributedDataParallel& ddp;
  optim::SGD optimizer;
  optim::GradScaler scaler{{.enabled = false}};
  distributed::JobState job;
  std::vector<std::string> notes;
  distributed::CheckpointFolder folder;
  std::int64_t step = 0;
};

}  // namespace tandem::testing
