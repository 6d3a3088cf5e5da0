// DeepLabV3 on a GPU: its whole training step is recorded, dropout included.
#include <tandem/autograd/functions.h>
#include <tandem/core/backend/device_graph.h>
#include <tandem/core/device/memory_stats.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/nn/loss.h>
#include <tandem/nn/models/segmentation.h>
#include <tandem/optim/sgd.h>
#ifdef TANDEM_EMULATED_CUDA
#include <emulation/libraries.h>
#endif

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "conformance/compare.h"

namespace tandem {
namespace {

using testing::gpu;

// Runs the model once, because the libraries' handles must be made before a step is recorded. The images are small,
// because the emulated GPU would take too long for full-sized ones. The plans for full-sized images are therefore made
// during the recording.
void warm_up(nn::models::SegmentationModel& model) {
  constexpr std::int64_t side = 33;
  const auto found = model.segment(Tensor(ops::zeros({2, 3, side, side}, DType::f32, gpu)));
  cross_entropy(found.out, ops::zeros({2, side, side}, DType::i64, gpu)).backward();
  model.zero_grad();
}

// Compares the memory that a recorded step takes from the driver with the most that the step uses at one time.
TEST(CudaSegmentation, AStepTakesLittleMoreMemoryThanItUses) {
  constexpr std::int64_t side = 129, images = 4;
  auto model = nn::models::make_segmentation_model("deeplabv3_resnet18");
  model.to(gpu);
  warm_up(model);
  [[maybe_unused]] const testing::PlansWhileRecording plans;
  optim::SGD optimizer(model.parameters(), {.lr = 0.01, .momentum = 0.9});
  const Array pictures = ops::zeros({images, 3, side, side}, DType::f32, gpu);
  const Array masks = ops::zeros({images, side, side}, DType::i64, gpu);
  const auto before = memory_stats(gpu);
  const auto graph = record_graph(gpu, [&] {
    optimizer.zero_grad();
    const auto found = model.segment(Tensor(pictures));
    (cross_entropy(found.out, masks) + 0.5 * cross_entropy(found.aux, masks)).backward();
    optimizer.step();
  });
  const auto after = memory_stats(gpu);
  const auto taken = static_cast<double>(after.system_bytes - before.system_bytes);
  const auto used = static_cast<double>(after.peak_bytes_in_use - before.bytes_in_use);
  EXPECT_LE(taken, 1.5 * used) << taken / 1e6 << " MB taken, " << used / 1e6 << " MB used";
}

TEST(CudaSegmentation, TheWholeStepOfDeepLabIsRecorded) {
  constexpr std::int64_t side = 17;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 2 * side * side; ++i) labels.push_back(i % 7 == 0 ? 255 : i / 5 % 21);
  const Array images = testing::numbers({2, 3, side, side}).to(gpu);
  const Array masks = Array::from(labels, {2, side, side}).to(gpu);
  manual_seed(0);
  auto model = nn::models::make_segmentation_model("deeplabv3_resnet18");
  model.to(gpu);
  warm_up(model);
  [[maybe_unused]] const testing::PlansWhileRecording plans;
  optim::SGD optimizer(model.parameters(), {.lr = 0.01, .momentum = 0.9});
  const CrossEntropyLossOptions ignoring{.ignore_index = 255};
#ifdef TANDEM_EMULATED_CUDA
  emulation::driver().log.clear();
#endif
  // The graph is not replayed, which would take the emulated GPU half a minute.
  const auto graph = record_graph(gpu, [&] {
    optimizer.zero_grad();
    const auto found = model.segment(Tensor(images));
    const Tensor loss = cross_entropy(found.out, masks, ignoring) + 0.5 * cross_entropy(found.aux, masks, ignoring);
    loss.backward();
    optimizer.step();
  });
#ifdef TANDEM_EMULATED_CUDA
  const auto is_launch = [](const auto& call) { return call.starts_with("launch"); };
  EXPECT_GT(std::ranges::count_if(emulation::driver().log, is_launch), 200);
#endif
}

}  // namespace
}  // namespace tandem
