// Loads pretrained weights from other sources into a model of this folder.
#pragma once

#include <tandem/core/array/named_array.h>
#include <tandem/nn/models/segmentation.h>

#include <string>
#include <vector>

namespace tandem::nn::models {

// Copies the weights that fit into `model`. Returns messages for the user about the others. Names are read
// without_wrappers() (core/io/arrays_file.h).
//
// The weights belong to a whole model, or to a ResNet (torchvision's, trained on ImageNet).
//   - From a whole model, every tensor is copied. Two parts keep the model's values: the last convolution of a head if
//     the weights are for another number of classes, and an auxiliary classifier that the weights lack.
//   - From a ResNet, the backbone is copied, and the heads keep the model's values.
// Throws an Error and changes nothing if any other tensor is missing, unexpected or of a different shape.
std::vector<std::string> load_weights(SegmentationModel& model, std::vector<NamedArray> weights);

// Returns the URL of torchvision's published weights for a name of model and training data, such as
// "deeplabv3_resnet101_coco" or "resnet50_imagenet". Returns an empty string if the name is unknown.
std::string weights_url(const std::string& name);
// The names that weights_url() accepts.
std::vector<std::string> weights_names();

}  // namespace tandem::nn::models
