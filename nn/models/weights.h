// Weights of somebody else's training for a model of this folder.
#pragma once

#include <tandem/core/array/named_array.h>
#include <tandem/nn/models/segmentation.h>

#include <string>
#include <vector>

namespace tandem::nn::models {

// Copies into `model` what fits, and returns what did not, in words to show to the user:
//   weights of the whole model: every tensor; a head's last convolution for another number of classes keeps its own
//   values, and so does
//     an auxiliary classifier that the weights don't have;
//   weights of a ResNet (torchvision's, trained on ImageNet): the backbone; the heads keep their own values.
// Error, and nothing is changed, when anything else is missing, unexpected or of another shape.
std::vector<std::string> load_weights(SegmentationModel& model, std::vector<NamedArray> weights);

// torchvision's published weights by the name of their model and training, "deeplabv3_resnet101_coco" or
// "resnet50_imagenet": where they are. Empty when there are none of this name.
std::string weights_url(const std::string& name);
// The names that weights_url() knows.
std::vector<std::string> weights_names();

}  // namespace tandem::nn::models
