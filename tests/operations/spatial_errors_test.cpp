#include <tandem/autograd/functions/convolution.h>
#include <tandem/autograd/functions/pooling.h>
#include <tandem/autograd/functions/resize.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include <limits>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::counting;

TEST(SpatialErrors, Convolutions) {
  const Tensor x(counting({2, 4, 5, 6})), w(counting({6, 4, 3, 3}));
  EXPECT_ERROR(conv2d(Tensor(counting({5, 6})), w), "conv2d", "(N, C, H, W) or (C, H, W)", "(5, 6)");
  EXPECT_ERROR(conv2d(x, Tensor(counting({6, 4, 3}))), "conv2d", "weight", "(6, 4, 3)");
  EXPECT_ERROR(conv2d(x, w, {}, {.groups = 3}), "conv2d", "3 groups", "(2, 4, 5, 6)", "(6, 4, 3, 3)");
  EXPECT_ERROR(conv2d(x, w, {}, {.groups = 2}), "conv2d", "has 4 channels", "(6, 4, 3, 3) takes 8, in groups of 4");
  EXPECT_ERROR(conv2d(x, w, {}, {.groups = 0}), "groups must be positive");
  EXPECT_ERROR(conv2d(x, Tensor(counting({6, 4, 7, 7}))), "(2, 4, 5, 6)", "smaller than the kernel 7x7");
  EXPECT_ERROR(conv2d(x, w, {}, {.padding = std::numeric_limits<std::int64_t>::max()}), "padding");
  EXPECT_ERROR(conv1d(x, w), "conv1d", "(N, C, L)", "(2, 4, 5, 6)");
  EXPECT_ERROR(conv1d(Tensor(counting({2, 4, 9})), Tensor(counting({6, 4, 3})), {}, {.stride = {1, 2}}), "conv1d",
               "one number", "1x2");
}

TEST(SpatialErrors, TransposedConvolutions) {
  const Tensor x(counting({2, 4, 5, 6})), w(counting({4, 3, 3, 3}));
  EXPECT_ERROR(conv_transpose2d(x, Tensor(counting({3, 4, 3, 3}))), "conv_transpose2d", "4 channels", "wants 3");
  EXPECT_ERROR(conv_transpose2d(x, w, {}, {.groups = 3}), "3 groups", "(2, 4, 5, 6)");
  EXPECT_ERROR(conv_transpose2d(x, w, {}, {.stride = 2, .output_padding = 2}), "output_padding 2x2", "stride 2x2",
               "dilation 1x1");
  EXPECT_ERROR(conv_transpose2d(x, w, Tensor(counting({4}))), "bias", "(3)", "(4)");
  EXPECT_ERROR(conv_transpose2d(x, w, {}, {.padding = 4}), "(2, 4, 5, 6)", "padding 4x4", "-1x0");
  EXPECT_ERROR(conv_transpose2d(x, w, {}, {.padding = 1, .dilation = -1}), "dilation -1x-1");
}

TEST(SpatialErrors, Pools) {
  const Tensor x(counting({2, 4, 5, 6}));
  EXPECT_ERROR(avg_pool2d(x, 2, {.padding = 2}), "avg_pool2d", "padding 2x2", "kernel 2x2");
  EXPECT_ERROR(avg_pool2d(x, 2, {.divisor_override = 0}), "divisor_override");
  EXPECT_ERROR(avg_pool2d(x, 7), "(2, 4, 5, 6)", "smaller than the kernel 7x7");
  EXPECT_ERROR(max_pool2d(x, 2, {.stride = 0}), "max_pool2d", "stride 0x0");
  EXPECT_ERROR(max_pool1d(x, 2), "max_pool1d", "(N, C, L)", "(2, 4, 5, 6)");
  EXPECT_ERROR(adaptive_avg_pool2d(Tensor(counting({2, 0, 5, 6})), 2), "adaptive_avg_pool2d", "(2, 0, 5, 6)");
  EXPECT_ERROR(adaptive_max_pool2d(Tensor(counting({2, 3, 0, 6})), 2), "adaptive_max_pool2d", "no pixels");
  EXPECT_ERROR(avg_pool2d(Tensor(counting({2, 4, 5, 6}, DType::i64)), 2), "floating", "i64");
}

TEST(SpatialErrors, Interpolate) {
  const Tensor x(counting({2, 4, 5, 6}));
  EXPECT_ERROR(interpolate(x, {}), "interpolate", "either size or scale_factor");
  EXPECT_ERROR(interpolate(x, {.size = Extent(2), .scale_factor = 2}), "not both");
  EXPECT_ERROR(interpolate(x, {.size = Extent(2), .align_corners = true}), "only with bilinear");
  EXPECT_ERROR(interpolate(x, {.size = Extent(-1, 3)}), "(2, 4, 5, 6)", "-1x3");
  EXPECT_ERROR(interpolate(x, {.scale_factor = 0.1}), "(2, 4, 5, 6)", "0x0");
  EXPECT_ERROR(interpolate(x, {.scale_factor = NAN}), "scale_factor");
  EXPECT_ERROR(
      interpolate(Tensor(counting({1, 1, 2, 2}, DType::u8)), {.size = Extent(3), .mode = Interpolation::bilinear}),
      "floating", "u8");
}

}  // namespace
}  // namespace tandem
