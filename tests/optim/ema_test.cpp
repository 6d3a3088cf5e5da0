#include <tandem/core/ops.h>
#include <tandem/optim/ema.h>

#include <gtest/gtest.h>

#include "support/arrays.h"
#include "support/golden.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using optim::ExponentialMovingAverage;
using testing::array_of;
using Floats = std::vector<float>;

// A channels-last parameter, like the weights of convolutions on a GPU, has the same averages as a row-major one.
TEST(ExponentialMovingAverage, FollowsParametersInAnyOrderOfMemory) {
  Tensor rows(testing::counting({2, 3, 4, 5}), true), images(testing::counting({2, 3, 4, 5}).channels_last(), true);
  ExponentialMovingAverage by_rows({{"a", rows}}, {}, {.decay = 0.5}), by_images({{"a", images}}, {}, {.decay = 0.5});
  for (int step = 0; step < 3; ++step) {
    for (const Tensor& t : {rows, images}) {
      Array value = t.value();
      ops::add_(value, testing::counting({2, 3, 4, 5}));
    }
    by_rows.update();
    by_images.update();
    EXPECT_EQ(by_images.averages()[0].array.to_vector<float>(), by_rows.averages()[0].array.to_vector<float>());
  }
}

TEST(ExponentialMovingAverage, EqualsPyTorch) {
  const testing::Golden golden("optimizers.safetensors");
  const std::vector<std::string> parameters = {"0.weight", "0.bias", "1.weight", "1.bias"},
                                 buffers = {"1.running_mean", "1.running_var", "1.num_batches_tracked"};
  for (const bool use_buffers : {false, true}) {
    const std::string prefix = use_buffers ? "ema_with_buffers/" : "ema_without_buffers/";
    const auto tensors = [&](const std::vector<std::string>& names) {
      std::vector<NamedTensor> all;
      for (const auto& name : names) all.push_back({name, Tensor(golden[prefix + "0/model/" + name].clone())});
      return all;
    };
    const auto p = tensors(parameters), b = tensors(buffers);
    ExponentialMovingAverage average(p, b, {.decay = 0.9, .use_buffers = use_buffers});
    for (int step = 0; step < 4; ++step) {
      const std::string at = prefix + std::to_string(step);
      for (const auto& group : {p, b})
        for (const auto& [name, tensor] : group) Array(tensor.value()).copy_from(golden[at + "/model/" + name]);
      average.update();
      for (const auto& [name, array] : average.averages()) {
        if (array.dtype() == DType::f32) testing::expect_close(golden[at + "/average/" + name], array, 1e-7, at + name);
        else testing::expect_same(golden[at + "/average/" + name], array, at + name);
      }
    }
    EXPECT_EQ(average.updates(), 4);
  }
}

TEST(ExponentialMovingAverage, SwapsInAndOut) {
  Tensor a(array_of({1, 2}), true);
  ExponentialMovingAverage average({{"a", a}}, {}, {.decay = 0.5});
  average.update();
  Array(a.value()).copy_from(array_of({3, 6}));
  average.update();
  average.swap();
  EXPECT_EQ(a.value().to_vector<float>(), (Floats{2, 4}));
  EXPECT_ERROR(average.update(), "swap()");
  EXPECT_ERROR(average.averages(), "swap()");
  average.swap();
  EXPECT_EQ(a.value().to_vector<float>(), (Floats{3, 6}));
  EXPECT_EQ(average.averages()[0].array.to_vector<float>(), (Floats{2, 4}));
}

TEST(ExponentialMovingAverage, StateGoesRound) {
  Tensor a(array_of({1, 2}), true), b(array_of({0, 0}), true);
  ExponentialMovingAverage first({{"a", a}}, {}, {.decay = 0.5}), second({{"a", b}}, {}, {.decay = 0.5});
  first.update();
  Array(a.value()).copy_from(array_of({3, 6}));
  first.update();
  const auto state = first.state_dict();
  ASSERT_EQ(state.size(), 2u);
  EXPECT_EQ(state[0].name, "module.a");
  EXPECT_EQ(state[1].name, "n_averaged");
  second.load_state_dict(state);
  second.update();  // the second update is not a copy
  EXPECT_EQ(second.averages()[0].array.to_vector<float>(), (Floats{1, 2}));
  EXPECT_ERROR(second.load_state_dict({state[1]}), "module.a");
  EXPECT_ERROR(second.load_state_dict({state[0]}), "n_averaged");
  EXPECT_ERROR(second.load_state_dict({{"module.a", ops::ones({3})}, state[1]}), "(3)", "(2)");
  EXPECT_ERROR(second.load_state_dict({state[0], state[1], {"module.b", ops::ones({3})}}), "3 entries");
}

TEST(ExponentialMovingAverage, NonsenseIsRefused) {
  const Tensor a(array_of({1}), true);
  EXPECT_ERROR(ExponentialMovingAverage({{"a", a}}, {}, {.decay = 1.5}), "decay", "1.5");
  EXPECT_ERROR(ExponentialMovingAverage({}), "at least one parameter");
}

}  // namespace
}  // namespace tandem
