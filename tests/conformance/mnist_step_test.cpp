// Checks the number of kernels in a recorded step of mnist_ddp. The speed of a step of this network is limited by the
// number of kernels, not by their computation.
#ifdef TANDEM_EMULATED_CUDA
#include <tandem/core/random/random.h>
#include <tandem/data/array_dataset.h>
#include <tandem/distributed/groups/local_group.h>
#include <tandem/distributed/training/trainer.h>
#include <tandem/nn/loss.h>
#include <tandem/nn/models/mnist.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>

#include "support/small_training.h"
#include "work_log.h"

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

namespace tandem::distributed {
namespace {

constexpr int batch = 20;

data::ArrayDataset pictures(std::int64_t count) {
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < count * 28 * 28; ++i) pixels.push_back(testing::noise(i));
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(i * 7 % 10);
  return data::ArrayDataset(Array::from(pixels, {count, 1, 28, 28}), Array::from(labels, {count}));
}

// Returns the GPU work in a recorded step of mnist_ddp.
std::vector<std::string> recorded_step(const char* dtype) {
  const auto samples = pictures(5 * batch);
  TrainingOptions options("mnist_step_test", "");
  options.batch_size = batch;
  options.epochs = 1;
  // --deterministic avoids timing the algorithms of convolutions, because times of an emulated GPU mean nothing.
  const std::vector<const char*> arguments{"mnist_step_test", "--quiet", "--device",       "cuda",
                                           "--dtype",         dtype,     "--deterministic"};
  manual_seed(1);
  nn::models::MnistNet model;
  std::vector<std::string> work;
  const int code = options.run(static_cast<int>(arguments.size()), arguments.data(), [&] {
    const auto group = local_group();
    Trainer trainer(options, group, model);
    optim::SGD optimizer(model.parameters(), {.lr = 1e-4});
    trainer.use(optimizer);
    data::Loader loader(samples, options.loader_options(*group));
    int calls = 0;
    emulation::note_work_in(&work);
    trainer.fit(loader, [&](const data::Batch& batch) {
      ++calls;
      return cross_entropy(model(batch.inputs), batch.targets);
    });
    emulation::note_work_in(nullptr);
    EXPECT_EQ(calls, 4);  // three steps run unrecorded
  });
  EXPECT_EQ(code, 0);
  return work;
}

struct Kernels {
  const char* dtype;
  std::int64_t most;  // Tandem's kernels, and copies
};

class MnistStep : public ::testing::TestWithParam<Kernels> {};

TEST_P(MnistStep, HasFewKernels) {
  const auto work = recorded_step(GetParam().dtype);
  std::string text;
  for (const auto& line : work) text += line + '\n';
  const auto libraries = std::ranges::count_if(work, [](const auto& line) { return line.starts_with("cu"); });
  EXPECT_EQ(libraries, 5);
  EXPECT_LE(static_cast<std::int64_t>(work.size()) - libraries, GetParam().most);
  std::cout << text;
}
INSTANTIATE_TEST_SUITE_P(Dtypes, MnistStep, ::testing::Values(Kernels{"f32", 20}, Kernels{"bf16", 22}),
                         [](const auto& info) { return std::string(info.param.dtype); });

}  // namespace
}  // namespace tandem::distributed
#endif
