// Trainer on the GPU: it records the step, trains as on the CPU, and finds out what is not finite.
#include <tandem/data/array_dataset.h>
#include <tandem/distributed/groups/local_group.h>
#include <tandem/distributed/training/trainer.h>
#include <tandem/nn/dropout.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/loss.h>
#include <tandem/optim/sgd.h>
#ifdef TANDEM_EMULATED_CUDA
#include <cuda_runtime.h>
#endif

#include <gtest/gtest.h>

#include "support/process.h"
#include "support/small_training.h"
#include "support/temporary_folder.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace tandem::distributed {
namespace {

using testing::Samples;
using Words = std::vector<const char*>;

nn::Sequential perceptron() {
  manual_seed(1);
  return nn::Sequential{nn::Flatten(), nn::Linear(64, 16), nn::ReLU(), nn::Dropout(0.2), nn::Linear(16, 10)};
}

// The final weights of a training with these arguments, as numbers one after the other.
std::vector<float> train(Words arguments, const data::ArrayDataset& samples, int expected_code = 0) {
  TrainingOptions options("trainer_test", "");
  options.batch_size = 8;
  options.epochs = 3;
  arguments.insert(arguments.begin(), {"trainer_test", "--quiet"});
  auto model = perceptron();
  const int code = options.run(static_cast<int>(arguments.size()), arguments.data(), [&] {
    const auto group = local_group();
    Trainer trainer(options, group, model);
    optim::SGD optimizer(model.parameters(), {.lr = 0.05, .momentum = 0.9});
    trainer.use(optimizer, [](std::int64_t steps) { return optim::CosineAnnealingLR{.T_max = steps}; });
    trainer.clip_norm(1);
    data::Loader loader(samples, options.loader_options(*group));
    trainer.fit(loader, [&](const data::Batch& batch) { return cross_entropy(model(batch.inputs), batch.targets); });
  });
  EXPECT_EQ(code, expected_code);
  std::vector<float> weights;
  for (const auto& [name, array] : model.state_dict())
    for (const float number : array.to_vector<float>()) weights.push_back(number);
  return weights;
}

void expect_near(const std::vector<float>& expected, const std::vector<float>& found) {
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(expected[i], found[i], 1e-4) << "at " << i;
}

// 60 samples: seven batches of 8 and one of 4, which is not recorded.
TEST(CudaTrainer, TrainsAsOnTheCpu) {
  const Samples some(0, 60);
  const data::ArrayDataset samples(some.images, some.labels);
  const auto expected = train({"--device", "cpu"}, samples);
#ifdef TANDEM_EMULATED_CUDA
  const auto launches = [] {
    const auto log = std::exchange(emulation::driver().log, {});
    return std::count(log.begin(), log.end(), "launch graph");
  };
  launches();
#endif
  expect_near(expected, train({"--device", "cuda"}, samples));
#ifdef TANDEM_EMULATED_CUDA
  EXPECT_GT(launches(), 10);
#endif
  expect_near(expected, train({"--device", "cuda", "--no-graph"}, samples));
#ifdef TANDEM_EMULATED_CUDA
  EXPECT_EQ(launches(), 0);
#endif
  expect_near(train({"--device", "cpu", "--accumulate", "3"}, samples),
              train({"--device", "cuda", "--accumulate", "3"}, samples));
}

TEST(CudaTrainer, GoesOnFromACheckpoint) {
  const testing::TemporaryFolder folder;
  const Samples some(0, 60);
  const data::ArrayDataset samples(some.images, some.labels);
  const auto undisturbed = train({"--device", "cuda"}, samples);
  const std::string checkpoint = (folder / "c").string();
  train({"--device", "cuda", "--checkpoint", checkpoint.c_str(), "--max-steps", "11"}, samples);
  expect_near(undisturbed, train({"--device", "cuda", "--checkpoint", checkpoint.c_str(), "--resume"}, samples));
}

// The host looks when a checkpoint is due, and writes none. Until then the GPU leaves out what would spoil the weights.
TEST(CudaTrainer, FindsWhatIsNotFiniteBeforeItSaves) {
  const testing::TemporaryFolder folder;
  Samples some(0, 60);
  some.images.select(0, 7).fill(std::numeric_limits<double>::quiet_NaN());
  const data::ArrayDataset samples(some.images, some.labels);
  const std::string checkpoint = (folder / "c").string(), model = (folder / "model.safetensors").string();
  ::testing::internal::CaptureStderr();
  const auto weights =
      train({"--device", "cuda", "--checkpoint", checkpoint.c_str(), "--save", model.c_str()}, samples, 1);
  EXPECT_TRUE(std::all_of(weights.begin(), weights.end(), [](float w) { return std::isfinite(w); }));
  const auto err = ::testing::internal::GetCapturedStderr();
  testing::expect_parts(err, {"step 8: a loss or gradient of an earlier step is not finite", "DetectAnomaly"});
  EXPECT_TRUE(std::filesystem::is_empty(folder / "c"));
  EXPECT_FALSE(std::filesystem::exists(model));
}

}  // namespace
}  // namespace tandem::distributed
