// Trainer on the GPU. It records the step, trains as on the CPU, and detects numbers that are not finite.
#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
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
#include <functional>
#include <limits>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace tandem::distributed {
namespace {

using testing::Samples;
using Words = std::vector<const char*>;

nn::Sequential perceptron() {
  manual_seed(1);
  return nn::Sequential{nn::Flatten(), nn::Linear(64, 16), nn::ReLU(), nn::Dropout(0.2), nn::Linear(16, 10)};
}

using Change = std::function<Tensor(const Tensor& loss)>;

// Returns the final weights of a training run with these arguments, concatenated.
std::vector<float> train(Words arguments, const data::Dataset& samples, int expected_code = 0,
                         const Change& change = {}, bool writes_loop = false, bool shuffles = true) {
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
    auto loading = options.loader_options(*group);
    loading.shuffle = shuffles;
    data::Loader loader(samples, loading);
    const auto loss_of = [&](const data::Batch& batch) {
      const Tensor loss = batch.targets.defined() ? cross_entropy(model(batch.inputs), batch.targets)
                                                  : 0.1 * cross_entropy(model(batch.inputs), batch.more[0]);
      return change ? change(loss) : loss;
    };
    if (!writes_loop) return trainer.fit(loader, loss_of);
    for (const auto& batch : trainer.batches(loader)) trainer.step(loss_of(batch));
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

// 60 samples are seven batches of 8 and one of 4, which is not recorded.
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

// Six batches with targets, then six batches with equal arrays in `more` instead.
struct OftenWithoutTargets : data::SampleDataset {
  std::int64_t size() const override { return 96; }
  data::Sample sample(std::int64_t index) const override {
    const Array input = some.images.select(0, index), label = some.labels.select(0, index);
    return index < 48 ? data::Sample{input, label} : data::Sample{input, {}, {label}};
  }
  Samples some{0, 96};
};

TEST(CudaTrainer, RecordsStepsWithAndWithoutTargetsApart) {
  const OftenWithoutTargets samples;
  expect_near(train({"--device", "cpu"}, samples, 0, {}, false, false),
              train({"--device", "cuda"}, samples, 0, {}, false, false));
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

// The host checks for failures when a checkpoint is due, and then writes none. Until then, the GPU skips updates that
// would make the weights infinite or NaN.
TEST(CudaTrainer, FindsWhatIsNotFiniteBeforeItSaves) {
  const testing::TemporaryFolder folder;
  Samples some(0, 60);
  some.images.select(0, 7).fill(std::numeric_limits<float>::max());
  const data::ArrayDataset samples(some.images, some.labels);
  const std::string checkpoint = (folder / "c").string(), model = (folder / "model.safetensors").string();
  ::testing::internal::CaptureStderr();
  const auto weights =
      train({"--device", "cuda", "--checkpoint", checkpoint.c_str(), "--save", model.c_str()}, samples, 1);
  EXPECT_TRUE(std::all_of(weights.begin(), weights.end(), [](float w) { return std::isfinite(w); }));
  const auto err = ::testing::internal::GetCapturedStderr();
  testing::expect_parts(err, {": the loss or a gradient is not finite", "DetectAnomaly", "in 1 (Linear)"});
  EXPECT_TRUE(std::filesystem::is_empty(folder / "c"));
  EXPECT_FALSE(std::filesystem::exists(model));
}

// Returns the number of the step that failed, and what the Error says about the operation.
std::pair<int, std::string> failure_of(Words arguments, const data::ArrayDataset& samples, const Change& change = {},
                                       bool writes_loop = false) {
  ::testing::internal::CaptureStderr();
  train(std::move(arguments), samples, 1, change, writes_loop);
  const auto err = ::testing::internal::GetCapturedStderr();
  const auto step = err.find("step "), words = err.find("the training ends. ");
  if (step == std::string::npos || words == std::string::npos) return {0, err};
  // The order of sums decides how many other numbers overflow together with the first one.
  return {std::stoi(err.substr(step + 5)), std::regex_replace(err.substr(words), std::regex("[0-9]+ of"), "some of")};
}

// When the host checks, the GPU has already run later steps. The error still names the step that failed.
TEST(CudaTrainer, NamesTheOperationOfTheStepThatFailed) {
  Samples some(0, 60);
  some.images.select(0, 7).fill(std::numeric_limits<float>::max());
  const data::ArrayDataset samples(some.images, some.labels);
  const auto expected = failure_of({"--device", "cpu"}, samples);
  EXPECT_GT(expected.first, 4);  // the failing step is a recorded one
  EXPECT_LT(expected.first, 8);
  testing::expect_parts(expected.second, {"in 1 (Linear)", "in the result of linear"});
  EXPECT_EQ(failure_of({"--device", "cuda"}, samples), expected);
  EXPECT_EQ(failure_of({"--device", "cuda", "--no-graph"}, samples), expected);
  EXPECT_EQ(failure_of({"--device", "cuda", "--log-every", "4"}, samples), expected);
  EXPECT_EQ(failure_of({"--device", "cuda", "--accumulate", "3"}, samples),
            failure_of({"--device", "cpu", "--accumulate", "3"}, samples));
  // If the program writes the loop, only the program can compute the loss again.
  const auto written = failure_of({"--device", "cuda"}, samples, {}, true);
  EXPECT_EQ(written.first, expected.first);
  testing::expect_parts(written.second, {"DetectAnomaly (autograd/anomaly.h) around the forward and backward pass"});
}

// In one step of ten, the random mask of dropout makes the loss infinite.
TEST(CudaTrainer, NamesTheOperationWithTheRandomNumbersOfTheStep) {
  const Samples some(0, 60);
  const data::ArrayDataset samples(some.images, some.labels);
  const auto change = [](const Tensor& loss) {
    return loss - sum(log(dropout(Tensor(ops::full({1}, 1, DType::f32, loss.device())), 0.1)));
  };
  const auto expected = failure_of({"--device", "cpu"}, samples, change);
  EXPECT_GT(expected.first, 4);
  testing::expect_parts(expected.second, {"in the result of log"});
  EXPECT_EQ(failure_of({"--device", "cuda"}, samples, change), expected);
}

// Even in a long epoch without figures or checkpoints, the host checks from time to time.
TEST(CudaTrainer, LooksFromTimeToTime) {
  TrainingOptions options("trainer_test", "");
  std::int64_t steps = 0;
  const Words arguments = {"trainer_test", "--quiet", "--device", "cuda"};
  ::testing::internal::CaptureStderr();
  options.run(static_cast<int>(arguments.size()), arguments.data(), [&] {
    const auto group = local_group();
    nn::Linear model(1, 1);
    Trainer trainer(options, group, model);
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    trainer.use(optimizer);
    trainer.after_step([&] { ++steps; });
    const Array ones = ops::full({400, 1}, 1);
    const data::ArrayDataset samples(ones, ones);
    data::Loader loader(samples, {.batch_size = 1});
    trainer.fit(loader, [&](const data::Batch& batch) { return log(sum(0 * model(batch.inputs))); });
  });
  testing::expect_parts(::testing::internal::GetCapturedStderr(), {"step 1: ", "in the result of log"});
  EXPECT_LT(steps, 200);
}

}  // namespace
}  // namespace tandem::distributed
