// Semantic segmentation on residual networks, with torchvision's names, initial values and numbers.
#pragma once

#include <tandem/nn/models/resnet.h>

#include <optional>
#include <string>

namespace tandem::nn::models {

struct SegmentationOptions {
  std::int64_t classes = 21;           // PASCAL VOC's
  bool aux_classifier = true;          // a second head, on layer 3, that helps training
  std::optional<double> dropout = {};  // before the last convolution of both heads; default: 0.5 DeepLabV3's, 0.1 FCN's
};

// Logits for every pixel of the input.
struct Segmentation {
  Tensor out;  // (N, classes, H, W)
  Tensor aux;  // the same of the auxiliary classifier; undefined without one
};

// A backbone whose layers 3 and 4 are dilated (features of 1/8 of the input's size), a head on layer 4 and an auxiliary
// head on layer 3; what they say is resized to the input's size.
//
// Deep supervision, FCN: Long et al., arXiv:1411.4038. DeepLabV3: Chen et al., arXiv:1706.05587, with rates 12, 24
// and 36.
class SegmentationModel : public Module {
 public:
  enum class Head { fcn, deeplabv3 };
  SegmentationModel(Head head, int depth, const SegmentationOptions& options = {});

  // Both heads, or in evaluation `out` alone: nobody reads the other there.
  Segmentation segment(const Tensor& x);
  Tensor forward(const Tensor& x) override { return segment(x).out; }

  ResNetFeatures& backbone() const { return *backbone_; }
  // Tensors of the auxiliary classifier, and only they, have names that begin so.
  static constexpr std::string_view aux_prefix = "aux_classifier.";

 private:
  ResNetFeatures* backbone_;
  Sequential* classifier_;
  Sequential* aux_classifier_ = nullptr;
};

// By torchvision's names: deeplabv3_resnet101, fcn_resnet50, ... and the same with resnet18, 34 and 152. Error, with
// what there is, for others.
SegmentationModel make_segmentation_model(const std::string& name, const SegmentationOptions& options = {});

}  // namespace tandem::nn::models
