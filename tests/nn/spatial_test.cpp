#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/pooling.h>
#include <tandem/nn/upsample.h>

#include <gtest/gtest.h>

#include "support/arrays.h"
#include "support/golden.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::counting;
using testing::expect_same;

TEST(Convolutions, StartAsPyTorchsToTheBit) {
  const testing::Golden golden("init.safetensors");
  std::size_t found = 0;
  const auto expect = [&](const std::string& layer, const nn::Module& module) {
    for (const auto& [name, tensor] : module.parameters()) {
      const std::string key = "spatial/" + layer + '.' + name;
      ASSERT_TRUE(golden.has(key)) << key;
      expect_same(golden[key], tensor.value(), key);
      ++found;
    }
  };
  manual_seed(7);
  expect("conv2d_groups", nn::Conv2d(4, 6, {3, 2}, {.groups = 2}));
  expect("conv2d_depthwise", nn::Conv2d(5, 5, 3, {.groups = 5, .bias = false}));
  expect("conv1d", nn::Conv1d(4, 6, 3, {.groups = 2}));
  expect("conv_transpose2d", nn::ConvTranspose2d(3, 4, 4));
  expect("conv_transpose2d_groups", nn::ConvTranspose2d(4, 6, {2, 3}, {.groups = 2}));
  expect("conv_transpose1d", nn::ConvTranspose1d(3, 2, 5));
  EXPECT_EQ(found, 11u);
}

TEST(Convolutions, HavePyTorchsShapes) {
  const Tensor image(counting({2, 4, 9, 8})), signal(counting({2, 4, 9}));
  EXPECT_EQ(nn::Conv2d(4, 6, 3, {.stride = 2, .padding = 1, .groups = 2})(image).shape(), (Shape{2, 6, 5, 4}));
  EXPECT_EQ(nn::Conv1d(4, 6, 3, {.stride = 2})(signal).shape(), (Shape{2, 6, 4}));
  EXPECT_EQ(nn::ConvTranspose2d(4, 3, 4, {.stride = 2, .padding = 1})(image).shape(), (Shape{2, 3, 18, 16}));
  EXPECT_EQ(nn::ConvTranspose1d(4, 3, 3, {.stride = 2, .output_padding = 1})(signal).shape(), (Shape{2, 3, 20}));
}

TEST(Convolutions, PadByName) {
  const Tensor image(counting({2, 4, 9, 8}));
  EXPECT_EQ(nn::Conv2d(4, 3, {3, 5}, {.padding = "same", .dilation = 2})(image).shape(), (Shape{2, 3, 9, 8}));
  EXPECT_EQ(nn::Conv2d(4, 3, 3, {.padding = "valid"})(image).shape(), (Shape{2, 3, 7, 6}));
  EXPECT_ERROR(nn::Conv2d(4, 3, 4, {.padding = "same"}), "same", "4x4", "odd");
  EXPECT_ERROR(nn::Conv2d(4, 3, 3, {.stride = 2, .padding = "same"}), "stride 1", "2x2");
  EXPECT_ERROR(nn::Conv2d(4, 3, 3, {.padding = "reflect"}), "reflect", "valid");
}

TEST(Convolutions, RefuseNonsense) {
  EXPECT_ERROR(nn::Conv2d(4, 6, 3, {.groups = 3}), "Conv2d", "3 groups", "the 4 input channels");
  EXPECT_ERROR(nn::Conv1d(4, 6, 0), "Conv1d", "kernel_size");
  EXPECT_ERROR(nn::ConvTranspose2d(4, 6, 3, {.groups = 0}), "ConvTranspose2d", "0 groups");
}

TEST(Pooling, HasPyTorchsShapesAndDefaults) {
  const Tensor image(counting({2, 4, 9, 8})), signal(counting({2, 4, 9}));
  EXPECT_EQ(nn::MaxPool2d(2)(image).shape(), (Shape{2, 4, 4, 4}));
  EXPECT_EQ(nn::MaxPool2d(3, {.stride = 2, .ceil_mode = true})(image).shape(), (Shape{2, 4, 4, 4}));
  EXPECT_EQ(nn::MaxPool1d(2)(signal).shape(), (Shape{2, 4, 4}));
  EXPECT_EQ(nn::AvgPool2d(Extent(2, 4))(image).shape(), (Shape{2, 4, 4, 2}));
  EXPECT_EQ(nn::AvgPool1d(3, {.stride = 1})(signal).shape(), (Shape{2, 4, 7}));
  EXPECT_EQ(nn::AdaptiveAvgPool2d({keep_size, 3})(image).shape(), (Shape{2, 4, 9, 3}));
  EXPECT_EQ(nn::AdaptiveAvgPool1d(5)(signal).shape(), (Shape{2, 4, 5}));
  EXPECT_EQ(nn::AdaptiveMaxPool2d(1)(image).shape(), (Shape{2, 4, 1, 1}));
  EXPECT_EQ(nn::Upsample({.scale_factor = 2})(image).shape(), (Shape{2, 4, 18, 16}));
  EXPECT_EQ(nn::Upsample({.size = Extent(3, 5), .mode = Interpolation::bilinear})(image).shape(), (Shape{2, 4, 3, 5}));
}

}  // namespace
}  // namespace tandem
