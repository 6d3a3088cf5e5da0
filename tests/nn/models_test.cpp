// Compares the model zoo with torchvision's. With the same seed, they have the same weights, logits, losses and
// gradients.
#include <tandem/autograd/autocast.h>
#include <tandem/core/ops.h>
#include <tandem/nn/models/segmentation.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "support/golden.h"

namespace tandem {
namespace {

using nn::models::make_segmentation_model;
using nn::models::ResNet;
using nn::models::SegmentationModel;

struct Case {
  const char* name;
  std::int64_t batch, size;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << c.name << '_' << c.batch << 'x' << c.size;
  }
};

// The same function as in tests/golden/models.py.
Array spread(const Array& a, std::int64_t count = 64) {
  const Array flat = a.contiguous(), found = Array::empty({count});
  for (std::int64_t i = 0; i < count; ++i) found.data<float>()[i] = flat.data<float>()[i * flat.numel() / count];
  return found;
}
std::pair<double, double> fingerprint(const Array& a) {
  const Array flat = a.contiguous();
  double squares = 0, product = 0;
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    const double v = flat.data<double>()[i];
    squares += v * v;
    product += v * static_cast<double>(i * 7919 % 101 - 50) / 50;
  }
  return {std::sqrt(squares), product};
}
void expect_close(const Array& found, const Array& expected, double relative) {
  double largest = 0;
  for (std::int64_t i = 0; i < expected.numel(); ++i)
    largest = std::max(largest, std::abs(double{expected.data<float>()[i]}));
  for (std::int64_t i = 0; i < expected.numel(); ++i)
    ASSERT_NEAR(found.data<float>()[i], expected.data<float>()[i], relative * largest) << "value " << i;
}

// The model and the batch of a case in tests/golden/models.py.
class Models : public ::testing::TestWithParam<Case> {
 protected:
  const testing::Golden golden{"models.safetensors"};
  const std::string name = GetParam().name;
  const bool is_segmentation = !name.starts_with("resnet");
  std::unique_ptr<nn::Module> model;
  SegmentationModel* segmentation = nullptr;
  Tensor images;
  Array labels;

  Models() {
    const auto& [text, count, size] = GetParam();
    omp_set_num_threads(1);  // a team of threads would wait for itself if other tests run at the same time
    manual_seed(0);
    if (is_segmentation) {
      auto made = std::make_unique<SegmentationModel>(make_segmentation_model(name, {.dropout = 0}));
      segmentation = made.get();
      model = std::move(made);
    } else {
      model = std::make_unique<ResNet>(nn::models::ResNetOptions{std::stoi(text + 6)});
    }
    manual_seed(1);
    images = ops::rand({count, 3, size, size}).channels_last();
    if (!is_segmentation) {
      labels = ops::randint(0, 1000, {count});
      return;
    }
    labels = ops::randint(0, 22, {count, size, size});
    for (std::int64_t i = 0; i < labels.numel(); ++i)
      if (labels.data<std::int64_t>()[i] == 21) labels.data<std::int64_t>()[i] = 255;
  }

  const Array& value(const std::string& what) const {
    return golden[::testing::PrintToString(GetParam()) + '/' + what];
  }
  void expect_equal_training();
  Tensor loss() {
    if (!segmentation) return cross_entropy((*model)(images), labels);
    const auto [out, aux] = segmentation->segment(images);
    return cross_entropy(out, labels, {.ignore_index = 255}) + 0.5 * cross_entropy(aux, labels, {.ignore_index = 255});
  }
};

class ModelsInTraining : public Models {};

TEST_P(Models, LogitsStatisticsAndLossesAreTorchvisions) { expect_equal_training(); }
TEST_P(ModelsInTraining, LogitsStatisticsAndLossesAreTorchvisions) { expect_equal_training(); }

void Models::expect_equal_training() {
  model->eval();
  {
    const NoGrad no_grad;
    expect_close(spread((*model)(images).value()), value("logits"), 1e-3);
  }
  model->train();
  optim::SGD optimizer(model->parameters(), {.lr = 2e-4, .momentum = 0.9, .weight_decay = 1e-4});
  const auto losses = value("losses").to_vector<double>();
  // With a different memory layout, PyTorch's own losses differ by up to 7e-4.
  const double later = std::max(1e-3, 3 * value("losses_apart").item());
  for (std::size_t step = 0; step < losses.size(); ++step) {
    optimizer.zero_grad();
    const Tensor found = loss();
    EXPECT_NEAR(found.item(), losses[step], (step == 0 ? 1e-4 : later) * losses[step]) << "step " << step;
    found.backward();
    if (step == 0)
      for (const auto& [buffer, tensor] : model->buffers())
        if (buffer == (is_segmentation ? "backbone.bn1.running_var" : "bn1.running_var"))
          expect_close(spread(tensor.value()), value("running_var"), 1e-5);
    optimizer.step();
  }
}

// The test uses f64. In f32, PyTorch's own gradients are wrong by several percent, because one ReLU that turns on or
// off changes the gradients of all layers before it.
TEST_P(Models, GradientsAreTorchvisions) {
  model->to(DType::f64);
  images = Tensor(images.value().to(DType::f64));
  loss().backward();
  const auto parameters = model->parameters();
  const Array& expected = value("gradients");
  ASSERT_EQ(static_cast<std::int64_t>(parameters.size()), expected.dim(0));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const double* const values = expected.data<double>() + 2 * i;
    const auto [norm, product] = fingerprint(parameters[i].tensor.grad());
    EXPECT_NEAR(norm, values[0], 1e-3 * values[0]) << parameters[i].name;
    EXPECT_NEAR(product, values[1], 1e-3 * values[0]) << parameters[i].name;
  }
}

class ModelsInBf16 : public Models {};

// The results are as close to those of f32 as with PyTorch's own autocast.
TEST_P(ModelsInBf16, LossAndGradientAreAsGoodAsTorchvisions) {
  const auto parameters = model->parameters();
  const double exact = loss().item();
  loss().backward();
  std::vector<Array> gradients;
  for (const auto& [_, tensor] : parameters) gradients.push_back(tensor.grad().clone());
  model->zero_grad();
  {
    const Autocast autocast(DType::bf16);
    const Tensor low = loss();
    EXPECT_NE(low.item(), exact);
    EXPECT_NEAR(low.item(), exact, 10 * value("bf16_apart").to_vector<double>()[0] * exact);
    low.backward();
  }
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto low = parameters[i].tensor.grad().to_vector<float>(), all = gradients[i].to_vector<float>();
    for (std::size_t k = 0; k < all.size(); ++k) {
      difference += std::pow(double{low[k]} - double{all[k]}, 2);
      norm += std::pow(double{all[k]}, 2);
    }
  }
  EXPECT_LT(std::sqrt(difference / norm), 1.25 * value("bf16_apart").to_vector<double>()[1]);
}

constexpr Case once[] = {{"resnet18", 4, 65},
                         {"resnet50", 4, 65},
                         {"resnet101", 4, 65},
                         {"fcn_resnet50", 3, 65},
                         {"deeplabv3_resnet101", 3, 65},
                         {"deeplabv3_resnet101", 3, 129}};
constexpr Case in_bf16[] = {{"resnet18", 4, 65}};
constexpr Case ten_steps[] = {{"deeplabv3_resnet101", 8, 65}};
INSTANTIATE_TEST_SUITE_P(Torchvision, Models, ::testing::ValuesIn(once), ::testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(TorchvisionBf16, ModelsInBf16, ::testing::ValuesIn(in_bf16),
                         ::testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(TorchvisionTenSteps, ModelsInTraining, ::testing::ValuesIn(ten_steps),
                         ::testing::PrintToStringParamName());

TEST(Models, DeepLabsStateHasTorchvisionsNamesAndShapes) {
  std::ifstream file(std::string(TANDEM_SOURCE_DIR) + "/tests/golden/deeplabv3_resnet101_state_dict.txt");
  const auto state = make_segmentation_model("deeplabv3_resnet101").state_dict();
  ASSERT_EQ(state.size(), 676u);
  std::string line;
  for (const auto& [name, array] : state) {
    ASSERT_TRUE(std::getline(file, line));
    std::ostringstream found;
    found << name << " [";
    for (int d = 0; d < array.ndim(); ++d) found << (d ? ", " : "") << array.dim(d);
    found << ']';
    EXPECT_EQ(found.str(), line);
  }
}

TEST(Models, WithoutTheAuxiliaryClassifierItsNamesAreGone) {
  auto model = make_segmentation_model("deeplabv3_resnet50", {.aux_classifier = false});
  for (const auto& [name, array] : model.state_dict())
    EXPECT_NE(name.substr(0, SegmentationModel::aux_prefix.size()), SegmentationModel::aux_prefix);
  EXPECT_EQ(model.parameter_count(), 39'638'869);
  EXPECT_FALSE(model.segment(Tensor(ops::rand({2, 3, 33, 33}))).aux.defined());
}

TEST(Models, OnePictureNeedsSharedStatisticsAndTheMessageSaysSo) {
  auto model = make_segmentation_model("deeplabv3_resnet18");
  try {
    model.segment(Tensor(ops::rand({1, 3, 33, 33})));
    FAIL() << "one value per channel has no variance";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("SyncBatchNorm"), std::string::npos) << error.what();
  }
  model.eval();
  EXPECT_EQ(model(Tensor(ops::rand({1, 3, 33, 47}))).shape(), (Shape{1, 21, 33, 47}));
}

TEST(Models, UnknownNamesAndDepthsAreRefused) {
  EXPECT_THROW(make_segmentation_model("deeplabv3_resnet77"), Error);
  EXPECT_THROW(make_segmentation_model("unet"), Error);
  EXPECT_THROW(ResNet({.depth = 20}), Error);
}

}  // namespace
}  // namespace tandem
