// DeepLabV3 with shared batch statistics: ranks that each have a part of the batch train like one rank with the whole
// batch.
#include <tandem/core/device/math_mode.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/ddp/sync_batch_norm.h>
#include <tandem/nn/models/segmentation.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>
#include <support/ranks.h>

#include <cmath>
#include <mutex>

namespace tandem::distributed {
namespace {

struct Result {
  std::vector<double> losses;  // of the whole batch, for each step
  std::vector<NamedArray> state;
};

// Takes a few steps on a batch of four, which is divided among `world` ranks. Masks have no void pixels. With void
// pixels, each rank's mean would be over a different number of pixels.
Result train(int world, double lr) {
  constexpr std::int64_t batch = 4, size = 33;
  constexpr int steps = 3;
  manual_seed(1);
  const Array images = ops::rand({batch, 3, size, size}), masks = ops::randint(0, 21, {batch, size, size});
  Result result{std::vector<double>(steps), {}};
  std::mutex mutex, one_at_a_time;
  testing::run_ranks(world, [&](testing::Group group) {
    nn::models::SegmentationModel model = [&] {
      const std::lock_guard lock(one_at_a_time);  // all ranks share the generator
      manual_seed(0);
      return nn::models::make_segmentation_model("deeplabv3_resnet18", {.dropout = 0});
    }();
    convert_sync_batch_norm(model, group);
    DistributedDataParallel ddp(model, group);
    optim::SGD optimizer(model.parameters(), {.lr = lr, .momentum = 0.9});
    const std::int64_t part = batch / world, first = group->rank() * part;
    const Tensor mine(images.slice(0, first, first + part).channels_last());
    const Array labels = masks.slice(0, first, first + part).contiguous();
    for (int step = 0; step < steps; ++step) {
      optimizer.zero_grad();
      const Tensor loss = ddp.forward([&] {
        const auto [out, aux] = model.segment(mine);
        return cross_entropy(out, labels) + 0.5 * cross_entropy(aux, labels);
      });
      loss.backward();
      optimizer.step();
      const std::lock_guard lock(mutex);
      result.losses[step] += loss.item() / world;
    }
    if (group->rank() == 0)
      for (const auto& [name, array] : model.state_dict()) result.state.push_back({name, array.clone()});
  });
  return result;
}

// Expects that training on 2 and 4 ranks equals training on one rank: the losses agree, and each array of the state
// differs from that of one rank by no more than `part` of its norm.
void expect_ranks_train_as_one(double lr, double part) {
  const Result whole = train(1, lr);
  for (const int world : {2, 4}) {
    const Result parts = train(world, lr);
    for (std::size_t step = 0; step < whole.losses.size(); ++step)
      EXPECT_NEAR(parts.losses[step], whole.losses[step], 1e-4 * whole.losses[step]) << world << ", step " << step;
    ASSERT_EQ(parts.state.size(), whole.state.size());
    for (std::size_t i = 0; i < whole.state.size(); ++i) {
      const auto expected = whole.state[i].array.to(DType::f64).to_vector<double>();
      const auto found = parts.state[i].array.to(DType::f64).to_vector<double>();
      double difference = 0, norm = 0;
      for (std::size_t k = 0; k < expected.size(); ++k) {
        difference += (found[k] - expected[k]) * (found[k] - expected[k]);
        norm += expected[k] * expected[k];
      }
      EXPECT_LE(std::sqrt(difference), part * std::sqrt(norm) + 1e-4) << world << ' ' << whole.state[i].name;
    }
  }
}

// The smallest feature maps have few pixels for their batch statistics. If rounding turns a ReLU on or off there, the
// weights change by a thousandth at this learning rate. With direct sums, that happens to few of them.
TEST(Segmentation, RanksWithPartsOfTheBatchTrainAsOneWithAllOfIt) {
  set_exact_convolutions(true);
  expect_ranks_train_as_one(0.01, 2e-3);
  set_exact_convolutions(false);
}

// Tiles have larger errors, which turn more ReLUs on or off. At a tenth of the learning rate, each such ReLU has a
// tenth of the effect.
TEST(Segmentation, ByTilesToo) { expect_ranks_train_as_one(0.001, 2e-4); }

}  // namespace
}  // namespace tandem::distributed
