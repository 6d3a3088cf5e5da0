#include <tandem/nn/dropout.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/models/segmentation.h>
#include <tandem/nn/pooling.h>

namespace tandem::nn::models {

namespace {

constexpr std::int64_t deeplab_width = 256;

Tensor resized(const Tensor& x, const Tensor& like) {
  return interpolate(x, {.size = Extent(like.dim(2), like.dim(3)), .mode = Interpolation::bilinear});
}

Sequential convolution(std::int64_t in, std::int64_t out, std::int64_t kernel_size, std::int64_t dilation = 1) {
  const std::int64_t padding = dilation * (kernel_size - 1) / 2;
  return {Conv2d(in, out, kernel_size, {.padding = padding, .dilation = dilation, .bias = false}), BatchNorm2d(out),
          ReLU()};
}

// Averages the features over the whole image and assigns the result to every pixel.
struct ImagePooling : Sequential {
  explicit ImagePooling(std::int64_t in)
      : Sequential{AdaptiveAvgPool2d(1), Conv2d(in, deeplab_width, 1, {.bias = false}), BatchNorm2d(deeplab_width),
                   ReLU()} {}
  Tensor forward(const Tensor& x) override { return resized(Sequential::forward(x), x); }
};

// Atrous spatial pyramid pooling: (N, in, H, W) -> (N, 256, H, W). Convolutions with several dilations process the
// image at several scales.
struct Aspp : Module {
  ModuleList& convs = add("convs", ModuleList());
  Sequential* project;

  Aspp(std::int64_t in, double dropout) {
    convs.push_back(convolution(in, deeplab_width, 1));
    for (const std::int64_t rate : {12, 24, 36}) convs.push_back(convolution(in, deeplab_width, 3, rate));
    convs.push_back(ImagePooling(in));
    project = &add("project", convolution(convs.size() * deeplab_width, deeplab_width, 1));
    project->push_back(Dropout(dropout));
  }
  Tensor forward(const Tensor& x) override {
    std::vector<Tensor> seen;
    for (Module& conv : convs) seen.push_back(conv(x));
    return (*project)(cat(seen, 1));
  }
};

Sequential deeplab_head(std::int64_t in, std::int64_t classes, double dropout) {
  return {Aspp(in, dropout), Conv2d(deeplab_width, deeplab_width, 3, {.padding = 1, .bias = false}),
          BatchNorm2d(deeplab_width), ReLU(), Conv2d(deeplab_width, classes, 1)};
}

Sequential fcn_head(std::int64_t in, std::int64_t classes, double dropout) {
  return {Conv2d(in, in / 4, 3, {.padding = 1, .bias = false}), BatchNorm2d(in / 4), ReLU(), Dropout(dropout),
          Conv2d(in / 4, classes, 1)};
}

}  // namespace

SegmentationModel::SegmentationModel(Head head, int depth, const SegmentationOptions& options) {
  TANDEM_CHECK(options.classes > 0, "SegmentationModel: classes must be positive, got ", options.classes);
  backbone_ = &add("backbone", ResNetFeatures({depth, {false, true, true}}));
  // This head's weights are drawn before the classifier's, but the state dict lists them after the classifier's.
  std::optional<Sequential> aux;
  if (options.aux_classifier)
    aux = fcn_head(backbone_->layer3_channels(), options.classes, options.dropout.value_or(0.1));
  classifier_ =
      &add("classifier", head == Head::deeplabv3
                             ? deeplab_head(backbone_->channels(), options.classes, options.dropout.value_or(0.5))
                             : fcn_head(backbone_->channels(), options.classes, options.dropout.value_or(0.1)));
  if (aux) aux_classifier_ = &add("aux_classifier", std::move(*aux));
}

Segmentation SegmentationModel::segment(const Tensor& x) {
  TANDEM_CHECK(x.defined() && x.shape().ndim() == 4 && x.dim(1) == 3,
               "SegmentationModel: input must be (N, 3, H, W), got ", x.defined() ? x.shape() : Shape{});
  auto stages = backbone_->stages(x);
  Segmentation result;
  result.out = resized((*classifier_)(stages.layer4), x);
  stages.layer4 = {};
  if (aux_classifier_ && is_training()) result.aux = resized((*aux_classifier_)(stages.layer3), x);
  return result;
}

SegmentationModel make_segmentation_model(const std::string& name, const SegmentationOptions& options) {
  using Head = SegmentationModel::Head;
  for (const auto& [prefix, head] : {std::pair("deeplabv3_resnet", Head::deeplabv3), {"fcn_resnet", Head::fcn}})
    for (const int depth : {18, 34, 50, 101, 152})
      if (name == prefix + std::to_string(depth)) return {head, depth, options};
  tandem::detail::fail("there is no segmentation model '", name,
                       "': expected deeplabv3_resnetN or fcn_resnetN, where N is 18, 34, 50, 101 or 152");
}

}  // namespace tandem::nn::models
