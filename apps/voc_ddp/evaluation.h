// What voc_ddp makes of pictures once it has a model: predictions, and how good they are.
#pragma once

#include <tandem/data/images/image_file.h>
#include <tandem/nn/models/segmentation.h>
#include <tandem/tandem.h>

#include <filesystem>

namespace voc {

using namespace tandem;

// Logits (1, classes, H, W) of one prepared picture (3, H, W). The model is in evaluation mode.
Tensor logits_of(nn::models::SegmentationModel& model, const Array& picture, Device device, DType dtype);
// The class of each pixel, (H, W) i64 on the CPU; resized to the file's size.
Array classes_of(const Tensor& logits);
Array classes_of(const Tensor& logits, const data::ImageFile& file);

// NAME.png: the classes with VOC's palette, as its own masks are.
void write_prediction(const std::filesystem::path& folder, const std::string& name, const Array& classes);

// The tensors in a file of weights. Error for one of voc_ddp's checkpoints, whose names are others.
std::vector<NamedArray> load_tensors(const std::string& file);

// What `load` makes of the tensors in the file that an option names. Every Error begins with both.
template <class Load>
auto load_from(const std::string& option, const std::string& file, Load load) {
  try {
    return load(load_tensors(file));
  } catch (const Error& error) {
    throw Error(option + " " + file + ": " + error.what());
  }
}

// UsageError for a folder of a VOC release, whose masks and pictures have the names of their predictions.
void check_output(const std::string& option, const std::filesystem::path& folder);

// UsageError for --weights that can't be what the user means.
void check_weights(const std::string& weights);

}  // namespace voc
