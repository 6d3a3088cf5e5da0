// How voc_ddp uses a model: it predicts images and measures the quality of the predictions.
#pragma once

#include <tandem/core/io/arrays_file.h>
#include <tandem/data/segmentation/segmentation.h>
#include <tandem/nn/models/segmentation.h>
#include <tandem/tandem.h>

#include <filesystem>

namespace voc {

using namespace tandem;

// The logits (1, classes, H, W) of one prepared image (3, H, W). The model must be in evaluation mode.
Array logits_of(nn::models::SegmentationModel& model, const Array& picture, Device device, DType dtype);

// Writes the classes (H, W) to the file NAME.png, with the palette of VOC's own masks.
void write_prediction(const std::filesystem::path& folder, const std::string& name, const Array& classes);
// The image (3, H, W) u8 with the classes (H, W) in colour over it, and their names below it.
Array shown(const Array& picture, const Array& classes);
// Side by side: an image of a data set, the image with its mask, and the image with the classes (H, W).
Array compared(const data::SegmentationPair& pair, const Array& classes);

// Calls `load` with the tensors in the file that `option` names: the model in a checkpoint, or the entry `key`. Returns
// its result. Every Error begins with the option and the file.
template <class Load>
auto load_from(const std::string& option, const std::string& file, const std::string& key, Load load) {
  try {
    return load(load_arrays(file, key));
  } catch (const Error& error) {
    throw Error(option + " " + file + ": " + error.what());
  }
}

// Throws a UsageError if `folder` belongs to a VOC release, because a prediction could overwrite a mask or image there.
void check_output(const std::string& option, const std::filesystem::path& folder);

// Throws a UsageError if the value of --weights is neither a file, a URL nor a known name.
void check_weights(const std::string& weights);

}  // namespace voc
