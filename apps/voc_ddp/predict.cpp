#include <apps/voc_ddp/predict.h>

#include <tandem/core/io/arrays_file.h>
#include <tandem/data/segmentation_picture.h>
#include <tandem/data/segmentation_transform.h>
#include <tandem/nn/models/weights.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <set>

#include <apps/voc_ddp/evaluation.h>

namespace voc {

namespace {

// The model that the weights are of: its head and auxiliary classifier show in their names, the depth in the blocks.
std::string model_of(const std::vector<NamedArray>& weights) {
  const auto has = [&](const std::string& name) {
    return std::any_of(weights.begin(), weights.end(), [&](const auto& entry) { return entry.name == name; });
  };
  const bool has_bottlenecks = has("backbone.layer1.0.conv3.weight");
  const int depth = !has_bottlenecks ? (has("backbone.layer1.2.conv1.weight") ? 34 : 18)
                    : has("backbone.layer3.35.conv1.weight") ? 152
                    : has("backbone.layer3.22.conv1.weight") ? 101
                                                             : 50;
  const bool is_deeplab = has("classifier.0.project.0.weight");
  TANDEM_CHECK(has("backbone.conv1.weight") && has("classifier.4.weight"),
               "these are not the weights of a whole segmentation model: there is no ",
               has("backbone.conv1.weight") ? "classifier.4.weight" : "backbone.conv1.weight",
               " among them. Give what voc_ddp --save has written, or torchvision's");
  return (is_deeplab ? "deeplabv3_resnet" : "fcn_resnet") + std::to_string(depth);
}

nn::models::SegmentationModel load_model(const std::string& file) {
  auto weights = load_arrays(file);
  nn::models::SegmentationOptions options{.aux_classifier = false};
  for (const auto& [name, array] : weights)
    if (name == "classifier.4.weight" && array.rank() == 4) options.classes = array.dim(0);
  auto model = nn::models::make_segmentation_model(model_of(weights), options);
  nn::models::load_weights(model, std::move(weights));
  model.eval();
  return model;
}

}  // namespace

int predict_main(int argc, const char* const* argv) try {
  CLI::App app("Predicts the classes of pictures' pixels.", "voc_ddp predict");
  std::vector<std::string> images;
  std::string weights, output = ".", device_name = "auto";
  std::int64_t base = 520;
  app.add_option("IMAGE", images, "pictures")->required()->check(CLI::ExistingFile);
  app.add_option("--weights", weights, "of the model: .safetensors or .pth")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--output", output, "folder for NAME.png, the classes, and NAME_overlay.png (here)");
  app.add_option("--base", base, "short side that pictures are resized to (520)")
      ->check(CLI::Range(1, 1 << 14));
  app.add_option("--device", device_name, "where to compute (auto)")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return 0;
  } catch (const CLI::ParseError& error) {
    std::cerr << "voc_ddp predict: " << error.what() << '\n';
    return 2;
  }
  const Device device =
      device_name == "cuda" || (device_name == "auto" && device_count(Device::Kind::cuda) > 0)
          ? Device::cuda(0)
          : Device{};
  auto model = load_model(weights);
  model.to(device);
  make_folder(output);
  const auto transform = data::SegmentationTransform::evaluation(base);
  std::set<std::string> names;
  for (const auto& image : images) {
    const std::string name = std::filesystem::path(image).stem().string();
    TANDEM_CHECK(names.insert(name).second, "two of the pictures are called ", name,
                 ", and so would be their predictions: give one of them after the other");
  }
  for (const auto& image : images) {
    const data::ImageFile file(image);
    const auto logits =
        logits_of(model, data::PreparedSegmentation::prepare(file, transform), device, DType::f32);
    const Array classes = classes_of(logits, file);
    const std::string name = std::filesystem::path(image).stem().string();
    write_prediction(output, name, classes);
    data::write_png(std::filesystem::path(output) / (name + "_overlay.png"),
                    data::overlay(file.read(), classes));
    std::cout << (std::filesystem::path(output) / (name + ".png")).string() << std::endl;
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << "voc_ddp predict: " << error.what() << '\n';
  return 1;
}

}  // namespace voc
