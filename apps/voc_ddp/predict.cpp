#include <apps/voc_ddp/predict.h>

#include <tandem/core/io/file_system.h>
#include <tandem/data/segmentation/segmentation_classes.h>
#include <tandem/data/segmentation/segmentation_picture.h>
#include <tandem/data/segmentation/segmentation_transform.h>
#include <tandem/distributed/training/pretrained.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <new>
#include <set>

#include <apps/voc_ddp/evaluation.h>

namespace voc {

using namespace tandem::distributed;
namespace fs = std::filesystem;

namespace {

struct Settings {
  std::vector<std::string> images;
  std::string weights, weights_key, output = ".";
  // The long side is that of MMSegmentation's recipes for PASCAL VOC. It affects only images more than four times as
  // wide as high.
  std::int64_t base = 520, max_size = 2048;
};

fs::path mask_of(const std::string& image, const Settings& s) {
  return fs::path(s.output) / (fs::path(image).stem().string() + ".png");
}

fs::path overlay_of(const std::string& image, const Settings& s) {
  return fs::path(s.output) / (fs::path(image).stem().string() + "_overlay.png");
}

// Throws a UsageError if the arguments can't be what the user means. The check runs before anything is written, so no
// image is overwritten.
void check(const Settings& s) {
  if (s.weights.empty()) throw UsageError("--weights: expected the model's weights: a file, a URL or a name");
  check_weights(s.weights);
  check_output("--output", s.output);
  std::set<fs::path> pictures, predictions;
  for (const auto& image : s.images) pictures.insert(fs::weakly_canonical(image));
  for (const auto& image : s.images) {
    for (const auto& prediction : {mask_of(image, s), overlay_of(image, s)}) {
      if (pictures.contains(fs::weakly_canonical(prediction)))
        throw UsageError("--output " + s.output + ": " + prediction.string() +
                         " is one of the pictures, and a prediction would overwrite it: give another folder");
      if (!predictions.insert(prediction).second)
        throw UsageError(image + ": two of the pictures would have the same prediction " + prediction.string() +
                         ": run them separately, each with its own --output");
    }
  }
}

// Returns the name of the model to which the weights belong. The names of the weights reveal the head, the auxiliary
// classifier and the depth.
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
               " among them. Give a file that voc_ddp --save wrote, or torchvision's weights");
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

// Segments an image, turned upright as the camera was held, and writes the two files.
void predict(nn::models::SegmentationModel& model, const std::string& image, const TrainingOptions& options,
             const Settings& s) {
  const data::ImageFile file(image, data::Orientation::upright);
  const auto transform = data::SegmentationTransform::evaluation(s.base, s.max_size);
  const Array classes = data::classes_at(
      logits_of(model, data::PreparedSegmentation::prepare(file, transform), options.device(), options.dtype),
      file.height(), file.width());
  const Array picture = shown(file.read(), classes);
  write_prediction(s.output, fs::path(image).stem().string(), classes);
  data::write_png(overlay_of(image, s), picture);
}

// Calls f(). Returns an empty string, or on failure the name of the image and the reason. One image that can't be read,
// or that needs too much memory, must not stop the work on the others.
std::string failure_of(const std::string& image, const std::function<void()>& f) {
  std::string text;
  try {
    f();
    return "";
  } catch (const std::bad_alloc&) {
    text = "there is not enough memory for it";
  } catch (const std::exception& error) {
    text = error.what();
  }
  return text.find(image) == std::string::npos ? image + ": " + text : text;
}

void predict_all(const TrainingOptions& options, const Settings& s) {
  check(s);
  const auto group = init(options.init_options());
  const std::string weights = find_weights(*group, s.weights, [&](const std::string& line) {
    if (!options.quiet) std::cerr << line << std::endl;
  });
  auto model = run_together(*group, [&] {
    create_folder(s.output, "for predictions");
    return load_from("--weights", weights, s.weights_key, make_model);
  });
  model.to(options.device());
  // The ranks take turns, so that rank 0 can report the result of each image in the order of the arguments.
  std::size_t left_out = 0;
  const auto size = static_cast<std::size_t>(group->size()), rank = static_cast<std::size_t>(group->rank());
  for (std::size_t first = 0; first < s.images.size(); first += size) {
    std::string failure;
    const std::size_t mine = first + rank;
    run_together(*group, [&] {
      if (mine < s.images.size())
        failure = failure_of(s.images[mine], [&] { predict(model, s.images[mine], options, s); });
    });
    const auto failures = group->all_gather_strings(failure, "results of the pictures");
    for (std::size_t i = first; i < std::min(first + size, s.images.size()); ++i) {
      const std::string& what = failures[i - first];
      left_out += !what.empty();
      if (rank != 0) continue;
      if (!what.empty()) std::cerr << options.program() << ": " << what << std::endl;
      else if (!options.quiet) std::cout << mask_of(s.images[i], s).string() << std::endl;
    }
  }
  run_together(*group, [&] {
    TANDEM_CHECK(left_out == 0 || rank != 0, left_out, left_out == 1 ? " picture has" : " pictures have",
                 " no prediction; the others are done");
  });
}

}  // namespace

int predict_main(int argc, const char* const* argv) {
  TrainingOptions options("voc_ddp predict",
                          "Predicts the classes of pictures' pixels with a model that voc_ddp has trained, "
                          "or torchvision's. Several processes share the "
                          "pictures. A picture that can't be read is named and skipped, and the exit code is then 1.",
                          TrainingOptions::Shared::processes);
  Settings settings;
  options.add_arguments("IMAGE", settings.images, "pictures: JPEG, PNG, BMP or PNM");
  options.add("--weights", settings.weights,
              "weights, which also say what the model is: a file (.safetensors or .pth), a URL or a name");
  options.add("--weights-key", settings.weights_key, "the entry with the state dict (the usual one)");
  options.add("--output", settings.output, "folder for NAME.png, the classes, and NAME_overlay.png (here)");
  options.add("--base", settings.base, "short side that pictures are resized to", {.min = 1, .max = 1 << 14});
  options.add("--max-size", settings.max_size, "longest allowed long side; a larger picture is made smaller",
              {.min = 1, .max = 1 << 16});
  return options.run(argc, argv, [&] { predict_all(options, settings); });
}

}  // namespace voc
