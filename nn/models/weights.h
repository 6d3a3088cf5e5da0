// Pretrained weights from elsewhere for a model of this folder.
#pragma once

#include <tandem/core/array/named_array.h>
#include <tandem/nn/models/segmentation.h>

#include <string>
#include <vector>

namespace tandem::nn::models {

// Copies into `model` the weights that fit. Returns what did not fit, in words to show to the user. Names are taken
// without_wrappers() (core/io/arrays_file.h).
//
// The weights are those of a whole model, or those of a ResNet (torchvision's, trained on ImageNet).
//   - From a whole model every tensor is copied. But the last convolution of a head keeps its own values when the
//     weights are for another number of classes. So does an auxiliary classifier that the weights don't have.
//   - From a ResNet the backbone is copied, and the heads keep their own values.
// Error, and nothing is changed, when anything else is missing, unexpected or of another shape.
std::vector<std::string> load_weights(SegmentationModel& model, std::vector<NamedArray> weights);

// torchvision's published weights by the name of their model and training, "deeplabv3_resnet101_coco" or
// "resnet50_imagenet": where they are. Empty when no weights have this name.
std::string weights_url(const std::string& name);
// The names that weights_url() knows.
std::vector<std::string> weights_names();

}  // namespace tandem::nn::models
