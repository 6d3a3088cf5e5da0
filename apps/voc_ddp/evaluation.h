// How voc_ddp uses a model: it predicts pictures, and measures how good the predictions are.
#pragma once

#include <tandem/core/io/arrays_file.h>
#include <tandem/data/segmentation/segmentation.h>
#include <tandem/nn/models/segmentation.h>
#include <tandem/tandem.h>

#include <filesystem>

namespace voc {

using namespace tandem;

// The logits (1, classes, H, W) of one prepared picture (3, H, W). The model must be in evaluation mode.
Array logits_of(nn::models::SegmentationModel& model, const Array& picture, Device device, DType dtype);

// Writes the file NAME.png with the classes (H, W), in the palette of VOC's own masks.
void write_prediction(const std::filesystem::path& folder, const std::string& name, const Array& classes);
// The picture (3, H, W) u8 with the classes (H, W) in colour over it, and their names below it.
Array shown(const Array& picture, const Array& classes);
// A picture of a data set, then the picture with its mask, then with the classes (H, W), beside each other.
Array compared(const data::SegmentationPair& pair, const Array& classes);

// Calls `load` with the tensors in the file that `option` names, those of the model in a checkpoint or those of `key`.
// Returns its result. Every Error begins with the option and the file.
template <class Load>
auto load_from(const std::string& option, const std::string& file, const std::string& key, Load load) {
  try {
    return load(load_arrays(file, key));
  } catch (const Error& error) {
    throw Error(option + " " + file + ": " + error.what());
  }
}

// UsageError when `folder` belongs to a VOC release: a prediction could overwrite a mask or picture of the same name.
void check_output(const std::string& option, const std::filesystem::path& folder);

// UsageError when the value of --weights can't be what the user means.
void check_weights(const std::string& weights);

}  // namespace voc
