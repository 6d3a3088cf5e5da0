#include <apps/voc_ddp/evaluation.h>

#include <tandem/data/images/image_file.h>
#include <tandem/data/segmentation/segmentation_picture.h>
#include <tandem/data/segmentation/voc.h>
#include <tandem/distributed/training/options/training_options.h>
#include <tandem/distributed/training/pretrained.h>

namespace voc {

Array logits_of(nn::models::SegmentationModel& model, const Array& picture, Device device, DType dtype) {
  const NoGrad no_grad;
  const Autocast autocast(dtype);
  return model(Tensor(picture.unsqueeze(0).to(device))).value();
}

void write_prediction(const std::filesystem::path& folder, const std::string& name, const Array& classes) {
  data::write_png(folder / (name + ".png"), classes, data::voc_colours());
}

Array shown(const Array& picture, const Array& classes) {
  return data::with_legend(data::outlined(data::overlay(picture, classes), classes), classes,
                           data::VocSegmentation::class_names());
}

Array compared(const data::SegmentationPair& pair, const Array& classes) {
  const Array picture = data::ImageFile(pair.image).read();
  return data::side_by_side({picture, shown(picture, data::MaskFile(pair.mask).read()), shown(picture, classes)});
}

void check_output(const std::string& option, const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  // Both forms of the path are checked, because `folder` may be a link to a data set's folder, or a link inside one.
  for (const fs::path& path : {fs::weakly_canonical(folder, error), fs::absolute(folder).lexically_normal()})
    if (fs::exists((path / "").parent_path().parent_path() / "ImageSets", error))
      throw distributed::UsageError(option + " " + folder.string() + " is inside a data set: give another folder");
}

void check_weights(const std::string& weights) {
  try {
    distributed::check_weights(weights);
  } catch (const Error& error) {
    throw distributed::UsageError(std::string("--weights: ") + error.what());
  }
}

}  // namespace voc
