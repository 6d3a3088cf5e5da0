#include <apps/voc_ddp/predict.h>

#include <tandem/core/io/file_system.h>
#include <tandem/data/segmentation/segmentation_picture.h>
#include <tandem/data/segmentation/segmentation_transform.h>
#include <tandem/distributed/training/pretrained.h>

#include <iostream>
#include <set>

#include <apps/voc_ddp/evaluation.h>

namespace voc {

using namespace tandem::distributed;
namespace fs = std::filesystem;

namespace {

struct Settings {
  std::vector<std::string> images;
  std::string weights, output = ".";
  std::int64_t base = 520;
};

fs::path mask_of(const std::string& image, const Settings& s) {
  return fs::path(s.output) / (fs::path(image).stem().string() + ".png");
}

fs::path overlay_of(const std::string& image, const Settings& s) {
  return fs::path(s.output) / (fs::path(image).stem().string() + "_overlay.png");
}

// UsageError when the arguments can't be what the user means. The check comes before anything is written, so that no
// picture is overwritten.
void check(const Settings& s) {
  if (s.weights.empty()) throw UsageError("--weights: expected the model's, a file, a URL or a name");
  check_weights(s.weights);
  check_output("--output", s.output);
  std::set<fs::path> pictures, predictions;
  for (const auto& image : s.images) pictures.insert(fs::weakly_canonical(image));
  for (const auto& image : s.images) {
    for (const auto& prediction : {mask_of(image, s), overlay_of(image, s)}) {
      if (pictures.contains(fs::weakly_canonical(prediction)))
        throw UsageError("--output " + s.output + ": " + prediction.string() +
                         " is one of the pictures, which a prediction would replace: give another folder");
      if (!predictions.insert(prediction).second)
        throw UsageError(image + ": two of the pictures would have the prediction " + prediction.string() +
                         ": give one of them after the other, with another --output");
    }
  }
}

// The name of the model that the weights belong to. The names of the weights tell the head, the auxiliary classifier
// and the depth.
std::string model_of(const std::vector<NamedArray>& weights) {
  const auto has = [&](const std::string& name) {
    return std::any_of(weights.begin(), weights.end(), [&](const auto& entry) { return entry.name == name; });
  };
  const bool has_bottlenecks = has("backbone.layer1.0.conv3.weight");
  const int depth = !has_bottlenecks                         ? (has("backbone.layer1.2.conv1.weight") ? 34 : 18)
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

nn::models::SegmentationModel make_model(std::vector<NamedArray> weights) {
  nn::models::SegmentationOptions options{.aux_classifier = false};
  for (const auto& [name, array] : weights)
    if (name == "classifier.4.weight" && array.ndim() == 4) options.classes = array.dim(0);
  auto model = nn::models::make_segmentation_model(model_of(weights), options);
  nn::models::load_weights(model, std::move(weights));
  model.eval();
  return model;
}

void predict(const TrainingOptions& options, const Settings& s) {
  check(s);
  const auto group = init(options.init_options());
  const std::string weights = find_weights(*group, s.weights, [&](const std::string& line) {
    if (!options.quiet) std::cerr << line << std::endl;
  });
  auto model = run_together(*group, [&] {
    create_folder(s.output, "for predictions");
    return load_from("--weights", weights, make_model);
  });
  model.to(options.device());
  const auto transform = data::SegmentationTransform::evaluation(s.base);
  // A rank that ended early would end the others, too. run_together lets each rank finish its pictures first.
  run_together(*group, [&] {
    std::size_t left_out = 0;
    for (auto i = static_cast<std::size_t>(group->rank()); i < s.images.size();
         i += static_cast<std::size_t>(group->size())) {
      Array classes, shown;
      try {
        const data::ImageFile file(s.images[i]);
        const Array picture = file.read();
        const Array prepared = data::PreparedSegmentation::prepare(file, transform);
        classes = classes_of(logits_of(model, prepared, options.device(), options.dtype), file);
        shown = data::overlay(picture, classes);
      } catch (const std::exception& error) {
        const std::string text = error.what();
        const bool names_it = text.find(s.images[i]) != std::string::npos;
        std::cerr << options.program() << ": " << (names_it ? "" : s.images[i] + ": ") << text << std::endl;
        ++left_out;
        continue;
      }
      write_prediction(s.output, fs::path(s.images[i]).stem().string(), classes);
      data::write_png(overlay_of(s.images[i], s), shown);
      if (!options.quiet) std::cout << mask_of(s.images[i], s).string() << std::endl;
    }
    TANDEM_CHECK(left_out == 0, left_out, left_out == 1 ? " picture has" : " pictures have",
                 " no prediction; the others are done");
  });
}

}  // namespace

int predict_main(int argc, const char* const* argv) {
  TrainingOptions options("voc_ddp predict",
                          "Predicts the classes of pictures' pixels with a model that voc_ddp has trained, "
                          "or torchvision's. Several processes share the "
                          "pictures. One that can't be read is named and left out; the exit code is then 1.",
                          TrainingOptions::Shared::processes);
  Settings settings;
  options.add_arguments("IMAGE", settings.images, "pictures, JPEG or PNG");
  options.add("--weights", settings.weights,
              "of the model, which they tell: a file (.safetensors or .pth), a URL or a name");
  options.add("--output", settings.output, "folder for NAME.png, the classes, and NAME_overlay.png (here)");
  options.add("--base", settings.base, "short side that pictures are resized to", {.min = 1, .max = 1 << 14});
  return options.run(argc, argv, [&] { predict(options, settings); });
}

}  // namespace voc
