#include <tandem/nn/init.h>
#include <tandem/nn/models/resnet.h>

#include <optional>

namespace tandem::nn::models {

namespace {

constexpr std::int64_t imagenet_classes = 1000;

Conv2d conv3x3(std::int64_t in, std::int64_t out, std::int64_t stride, std::int64_t dilation) {
  return {in, out, 3, {.stride = stride, .padding = dilation, .dilation = dilation, .bias = false}};
}
Conv2d conv1x1(std::int64_t in, std::int64_t out, std::int64_t stride = 1) {
  return {in, out, 1, {.stride = stride, .bias = false}};
}

struct BlockShape {
  std::int64_t in, width, stride, dilation;
};

// A block with two 3 x 3 convolutions and a shortcut that is added to their result.
struct BasicBlock : Module {
  static constexpr std::int64_t expansion = 1;
  Conv2d& conv1;
  BatchNorm2d& bn1;
  Conv2d& conv2;
  BatchNorm2d& bn2;
  Sequential* downsample = nullptr;

  BasicBlock(const BlockShape& s, std::optional<Sequential> shortcut)
      : conv1(add("conv1", conv3x3(s.in, s.width, s.stride, s.dilation))),
        bn1(add("bn1", BatchNorm2d(s.width))),
        conv2(add("conv2", conv3x3(s.width, s.width, 1, s.dilation))),
        bn2(add("bn2", BatchNorm2d(s.width))) {
    if (shortcut) downsample = &add("downsample", std::move(*shortcut));
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = conv2(batch_norm_relu(bn1, conv1(x)));
    return batch_norm_add_relu(bn2, y, downsample ? (*downsample)(x) : x);
  }
};

// A block with three convolutions (1 x 1, 3 x 3 and 1 x 1) and a shortcut that is added to their result. The last
// convolution has four times as many output channels.
struct Bottleneck : Module {
  static constexpr std::int64_t expansion = 4;
  Conv2d& conv1;
  BatchNorm2d& bn1;
  Conv2d& conv2;
  BatchNorm2d& bn2;
  Conv2d& conv3;
  BatchNorm2d& bn3;
  Sequential* downsample = nullptr;

  Bottleneck(const BlockShape& s, std::optional<Sequential> shortcut)
      : conv1(add("conv1", conv1x1(s.in, s.width))),
        bn1(add("bn1", BatchNorm2d(s.width))),
        conv2(add("conv2", conv3x3(s.width, s.width, s.stride, s.dilation))),
        bn2(add("bn2", BatchNorm2d(s.width))),
        conv3(add("conv3", conv1x1(s.width, expansion * s.width))),
        bn3(add("bn3", BatchNorm2d(expansion * s.width))) {
    if (shortcut) downsample = &add("downsample", std::move(*shortcut));
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = conv3(batch_norm_relu(bn2, conv2(batch_norm_relu(bn1, conv1(x)))));
    return batch_norm_add_relu(bn3, y, downsample ? (*downsample)(x) : x);
  }
};

// Builds one of the four stages. Its first block changes the resolution and the number of channels. If dilation
// replaces the stride (`dilate`), the first block still has the previous stage's dilation, because its input pixels
// have that stage's spacing.
template <class Block>
Sequential make_layer(std::int64_t in, std::int64_t width, int blocks, std::int64_t stride, std::int64_t& dilation,
                      bool dilate) {
  const std::int64_t first_dilation = dilation, out = width * Block::expansion;
  if (dilate) dilation *= std::exchange(stride, 1);
  std::optional<Sequential> shortcut;
  if (stride != 1 || in != out) shortcut = Sequential{conv1x1(in, out, stride), BatchNorm2d(out)};
  Sequential layer;
  layer.push_back(Block({in, width, stride, first_dilation}, std::move(shortcut)));
  for (int i = 1; i < blocks; ++i) layer.push_back(Block({out, width, 1, dilation}, std::nullopt));
  return layer;
}

std::array<int, 4> blocks_of(int depth) {
  switch (depth) {
    case 18: return {2, 2, 2, 2};
    case 34: return {3, 4, 6, 3};
    case 50: return {3, 4, 6, 3};
    case 101: return {3, 4, 23, 3};
    case 152: return {3, 8, 36, 3};
    default: tandem::detail::fail("there is no ResNet-", depth, ": the depth must be 18, 34, 50, 101 or 152");
  }
}

}  // namespace

ResNetFeatures::ResNetFeatures(const ResNetOptions& options, Undrawn)
    : conv1_(&add("conv1", Conv2d(3, 64, 7, {.stride = 2, .padding = 3, .bias = false}))),
      bn1_(&add("bn1", BatchNorm2d(64))) {
  const bool has_bottlenecks = options.depth >= 50;
  const auto blocks = blocks_of(options.depth);
  std::int64_t dilation = 1;
  channels_ = 64;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::int64_t width = std::int64_t{64} << i, stride = i == 0 ? 1 : 2;
    const bool dilate = i > 0 && options.replace_stride_with_dilation[i - 1];
    layers_[i] = &add("layer" + std::to_string(i + 1),
                      has_bottlenecks ? make_layer<Bottleneck>(channels_, width, blocks[i], stride, dilation, dilate)
                                      : make_layer<BasicBlock>(channels_, width, blocks[i], stride, dilation, dilate));
    channels_ = width * (has_bottlenecks ? Bottleneck::expansion : BasicBlock::expansion);
  }
}

ResNetFeatures::ResNetFeatures(const ResNetOptions& options) : ResNetFeatures(options, Undrawn{}) {
  const Linear dropped(channels(), imagenet_classes);
  draw_convolutions();
}

void ResNetFeatures::draw_convolutions() {
  for (auto& [name, module] : modules())
    if (const auto* convolution = dynamic_cast<const Conv2d*>(&module))
      init::kaiming_normal_(convolution->weight,
                            {.mode = init::FanMode::fan_out, .nonlinearity = init::Nonlinearity::relu});
}

ResNetFeatures::Stages ResNetFeatures::stages(const Tensor& x) {
  Tensor y = max_pool2d(batch_norm_relu(*bn1_, (*conv1_)(x)), 3, {.stride = Extent(2), .padding = 1});
  y = (*layers_[1])((*layers_[0])(y));
  Stages stages;
  stages.layer3 = (*layers_[2])(y);
  y = {};
  stages.layer4 = (*layers_[3])(stages.layer3);
  return stages;
}

ResNet::ResNet(const ResNetOptions& options, std::int64_t classes)
    : ResNetFeatures(options, Undrawn{}), fc_(&add("fc", Linear(channels(), classes))) {
  draw_convolutions();
}

Tensor ResNet::forward(const Tensor& x) { return (*fc_)(mean(stages(x).layer4, {2, 3})); }

}  // namespace tandem::nn::models
