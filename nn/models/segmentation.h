// Semantic segmentation on residual networks, with torchvision's names, initial values and outputs.
#pragma once

#include <tandem/nn/models/resnet.h>

#include <optional>
#include <string>

namespace tandem::nn::models {

struct SegmentationOptions {
  std::int64_t classes = 21;           // PASCAL VOC has 21
  bool aux_classifier = true;          // a second head, on layer 3, that helps training
  std::optional<double> dropout = {};  // before the last convolution of both heads; default: 0.5 for DeepLabV3, 0.1 for
                                       // FCN
};

// Logits for every pixel of the input.
struct Segmentation {
  Tensor out;  // (N, classes, H, W)
  Tensor aux;  // (N, classes, H, W), the auxiliary classifier's logits; undefined without it
};

// A backbone, a head on its layer 4 and an auxiliary head on its layer 3. Because layers 3 and 4 are dilated, the
// features have 1/8 of the input's size. The outputs of both heads are resized to the size of the input.
//
// Sources: deep supervision and FCN: Long et al., arXiv:1411.4038. DeepLabV3: Chen et al., arXiv:1706.05587, with rates
// 12, 24 and 36.
class SegmentationModel : public Module {
 public:
  enum class Head { fcn, deeplabv3 };
  SegmentationModel(Head head, int depth, const SegmentationOptions& options = {});

  // Returns the outputs of both heads in training. In evaluation it returns only `out`.
  Segmentation segment(const Tensor& x);
  Tensor forward(const Tensor& x) override { return segment(x).out; }

  ResNetFeatures& backbone() const { return *backbone_; }
  // The names of the auxiliary classifier's tensors begin with this prefix. No other names do.
  static constexpr std::string_view aux_prefix = "aux_classifier.";

 private:
  ResNetFeatures* backbone_;
  Sequential* classifier_;
  Sequential* aux_classifier_ = nullptr;
};

// Creates a model by its torchvision name: deeplabv3_resnet101, fcn_resnet50, ..., and also with resnet18, 34 and 152.
// Throws an Error that lists the names if the name is unknown.
SegmentationModel make_segmentation_model(const std::string& name, const SegmentationOptions& options = {});

}  // namespace tandem::nn::models
