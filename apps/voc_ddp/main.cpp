// Trains a network for semantic segmentation on PASCAL VOC, on one process or several:
//
//   tandemrun --nproc-per-node 8 voc_ddp --data DIR --sync-bn
//   voc_ddp predict picture.jpg --weights model.pth --output DIR
#include <tandem/core/io/atomic_file.h>
#include <tandem/core/io/file_system.h>
#include <tandem/data/images/image_png.h>
#include <tandem/data/segmentation/segmentation_classes.h>
#include <tandem/data/segmentation/segmentation_metrics.h>
#include <tandem/data/segmentation/segmentation_transform.h>
#include <tandem/data/segmentation/voc.h>
#include <tandem/distributed/training/pretrained.h>

#include <iostream>

#include <apps/voc_ddp/evaluation.h>
#include <apps/voc_ddp/predict.h>

using namespace tandem;
using namespace tandem::distributed;
using nn::models::SegmentationModel;

namespace {

// The number of images in the event file per evaluation. This many are enough to inspect, and the file stays small.
constexpr std::size_t shown_pictures = 4;

struct Settings {
  std::string data = ".", year = "2012", image_set = "train", val_set = "val";
  std::string model = "deeplabv3_resnet101", weights = "none", init, weights_key, predict;
  double lr = 0.01, momentum = 0.9, weight_decay = 1e-4;
  std::optional<double> dropout;
  std::int64_t crop = 480, base = 520;
  std::optional<double> min_scale, max_scale;
  bool augment = true, shuffle = true, skip_bad = false, full_size = false, compare = false;
};

void add_options(TrainingOptions& options, Settings& s) {
  options.epochs = 20;
  options.batch_size = 8;
  options.samples_name = "images";
  options.workers = 2;
  options.add("--data", s.data, "folder that holds or will hold VOCdevkit (here)");
  options.add("--year", s.year, data::VocSegmentation::years(), "year of the challenge");
  options.add("--image-set", s.image_set, "pictures to train on (train)");
  options.add("--val-set", s.val_set, "pictures to evaluate on (val)");
  options.add("--model", s.model, "deeplabv3_resnetN or fcn_resnetN (deeplabv3_resnet101)");
  options.add("--weights", s.weights, "initial weights: none, a name, a file or a URL (none)");
  options.add("--init", s.init, "a file with every tensor of the model, as initial weights");
  options.add("--weights-key", s.weights_key, "the entry with the state dict (the usual one)");
  options.add("--lr", s.lr, "learning rate; ten times as much for the auxiliary classifier", {.min = 0});
  options.add("--momentum", s.momentum, "of the gradients", {.min = 0, .max = 1});
  options.add("--weight-decay", s.weight_decay, "L2 penalty", {.min = 0});
  options.add("--crop", s.crop, "side of the squares to train on", {.min = 1, .max = 1 << 14});
  options.add("--base", s.base, "short side before random resizing, and in evaluation", {.min = 1, .max = 1 << 14});
  options.add("--min-scale", s.min_scale, "smallest random resizing, as a factor of --base (0.5)", {.min = 0});
  options.add("--max-scale", s.max_scale, "largest random resizing (2)", {.min = 0});
  options.add("--dropout", s.dropout, "dropout of both heads (the model's own)", {.min = 0, .max = 1});
  options.add("--no-augment", s.augment, "only resize to the crop and take the middle");
  options.add("--no-shuffle", s.shuffle, "the same order in every epoch");
  options.add("--full-size", s.full_size, "evaluate on the masks as they are, not resized to --base");
  options.add("--predict", s.predict, "folder for predictions of the evaluation's pictures");
  options.add("--compare", s.compare, "also write picture, truth and prediction side by side");
  options.add("--skip-bad", s.skip_bad, "skip damaged samples, and list them");
}

data::VocSegmentation open_voc(const Settings& s, const std::string& image_set) {
  return {s.data, s.year, image_set,
          s.skip_bad ? data::SegmentationFiles::Damaged::skip : data::SegmentationFiles::Damaged::error};
}

// Throws an Error if the ranks have different samples. Each host checks its own files, and may have skipped others.
void check_same_files(ProcessGroup& group, const data::VocSegmentation& files, const std::string& image_set) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < files.size(); ++i) names.push_back(files.pair(i).name);
  check_same_samples(group, "'" + image_set + "'", names, [&](const std::string& name) -> std::string {
    for (const auto& skipped : files.skipped())
      if (skipped.name == name) return skipped.reason;
    return "";
  });
}

// Prepared images. The Error for a damaged one names the option that helps.
class Pictures : public data::PreparedSegmentation {
 public:
  Pictures(const data::SegmentationFiles& files, const data::SegmentationTransform& transform, const Settings& s,
           std::uint64_t seed = 0)
      : PreparedSegmentation(files, transform, seed), skips_bad_(s.skip_bad) {}
  data::Batch get(std::span<const std::int64_t> indices) const override {
    try {
      return PreparedSegmentation::get(indices);
    } catch (const Error& error) {
      throw Error(std::string(error.what()) + (skips_bad_ ? "" : "; --skip-bad skips damaged samples"));
    }
  }

 private:
  const bool skips_bad_;
};

// Divides the parameters into two groups. Those of the auxiliary classifier have ten times the learning rate.
std::vector<optim::SGDGroup> parameter_groups(const SegmentationModel& model, const Settings& s) {
  const optim::SGDOptions options{.lr = s.lr, .momentum = s.momentum, .weight_decay = s.weight_decay};
  optim::SGDGroup main{{}, options}, aux{{}, options};
  aux.options.lr = 10 * s.lr;
  for (const auto& parameter : model.parameters())
    (parameter.name.starts_with(SegmentationModel::aux_prefix) ? aux : main).parameters.push_back(parameter);
  return {main, aux};
}

Tensor loss_of(nn::Module& model, const data::Batch& batch) {
  const CrossEntropyLossOptions options{.ignore_index = data::void_label};
  const auto found = dynamic_cast<SegmentationModel&>(model).segment(batch.inputs);
  return cross_entropy(found.out, batch.targets, options) + 0.5 * cross_entropy(found.aux, batch.targets, options);
}

// Evaluates the model on the images of `files`. Each rank takes its share, one image at a time, because the shapes
// differ. The metrics cover all ranks. `learned` becomes the table of the classes.
std::vector<Metric> evaluate(Trainer& trainer, SegmentationModel& model, ProcessGroup& group,
                             const data::SegmentationFiles& files, const Settings& s, const TrainingOptions& options,
                             std::string& learned) {
  auto transform = data::SegmentationTransform::evaluation(s.base);
  transform.keeps_masks = s.full_size;
  Pictures pictures(files, transform, s);
  data::ExactSampler sampler(pictures.size(), group.rank(), group.size());
  data::Loader loader(pictures, sampler, {.batch_size = 1, .workers = static_cast<int>(options.workers)});
  const auto indices = sampler.indices();
  data::ConfusionMatrix matrix(files.classes());
  run_together(group, [&] {
    std::size_t i = 0;
    for (auto& [image, mask] : loader) {
      const Array picture = image.select(0, 0), truth = mask.select(0, 0);
      const auto logits = voc::logits_of(model, picture, options.device(), options.dtype);
      matrix.add(data::classes_at(logits, truth.dim(0), truth.dim(1)), truth);
      const auto& pair = files.pair(indices[i]);
      const bool is_logged = trainer.events() && i < shown_pictures;
      if (!s.predict.empty() || is_logged) {
        const data::ImageFile file(pair.image);
        const Array classes = data::classes_at(logits, file.height(), file.width());
        if (!s.predict.empty()) voc::write_prediction(s.predict, pair.name, classes);
        if (s.compare)
          data::write_png(std::filesystem::path(s.predict) / (pair.name + "_compare.png"),
                          voc::compared(pair, classes));
        if (is_logged) {
          const Array shown = voc::compared(pair, classes);
          trainer.events()->add_image("predictions/" + pair.name, trainer.steps(), data::encode_png(shown),
                                      static_cast<int>(shown.dim(2)), static_cast<int>(shown.dim(1)));
        }
      }
      trainer.progress("evaluation", static_cast<std::int64_t>(++i), loader.size());
    }
  });
  group.all_reduce(matrix.counts(), ReduceOp::sum, "confusion matrix")->wait();
  const auto names = data::VocSegmentation::class_names();
  learned = matrix.table(names);
  const auto iou = matrix.class_iou(), accuracy = matrix.class_accuracy();
  return {{"miou", matrix.mean_iou(), Metric::Kind::fraction},
          {"pixel_accuracy", matrix.pixel_accuracy(), Metric::Kind::fraction},
          {"class_iou", iou},
          {"class_accuracy", accuracy},
          {"classes", Table{names, {"IoU", "accuracy"}, {iou, accuracy}}, Metric::Kind::fraction},
          {"confusion", Table{names, names, matrix.columns()}}};
}

// Throws a UsageError for a folder into which nothing should be downloaded.
void check_data(const Settings& s) {
  if (std::error_code error; !std::filesystem::exists(s.data, error))
    throw UsageError("--data " + s.data + ": there is no such folder: create it, or correct the path");
  try {
    data::check_voc_root(s.data, s.year);
  } catch (const Error& error) {
    throw UsageError(std::string("--data: ") + error.what());
  }
}

data::SegmentationTransform training_transform(const Settings& s) {
  using Transform = data::SegmentationTransform;
  if (!s.augment) {
    if (s.min_scale || s.max_scale)
      throw UsageError("--min-scale and --max-scale: --no-augment turns random resizing off");
    return Transform::middle(s.crop);
  }
  try {
    return Transform::train(s.base, s.crop, s.min_scale.value_or(Transform::default_min_scale),
                            s.max_scale.value_or(Transform::default_max_scale));
  } catch (const Error& error) {
    throw UsageError(std::string("--base, --min-scale, --max-scale: ") + error.what());
  }
}

// A model with initial values, which depend on the seed.
SegmentationModel make_model(const Settings& s) {
  try {
    return nn::models::make_segmentation_model(s.model, {.dropout = s.dropout});
  } catch (const Error& error) {
    throw UsageError(std::string("--model: ") + error.what());
  }
}

void train(TrainingOptions& options, const Settings& s) {
  // Report wrong arguments before the ranks meet, and before anything is downloaded.
  if (s.weights != "none") voc::check_weights(s.weights);
  if (!s.init.empty() && !std::filesystem::is_regular_file(s.init))
    throw UsageError("--init " + s.init + ": there is no such file");
  if (!s.weights_key.empty() && s.weights == "none" && s.init.empty())
    throw UsageError("--weights-key: needs --weights or --init, which names the file with the entry");
  const auto transform = training_transform(s);
  check_data(s);
  if (!s.predict.empty()) voc::check_output("--predict", s.predict);
  if (s.compare && s.predict.empty()) throw UsageError("--compare: needs --predict DIR, the folder for the pictures");
  auto model = make_model(s);
  const auto group = init(options.init_options());
  const auto report = [&](const std::string& line) {
    if (!options.quiet) std::cerr << line << std::endl;
  };
  std::vector<std::string> notices;
  if (s.weights != "none") {
    const std::string file = find_weights(*group, s.weights, report);
    notices = run_together(*group, [&] {
      return voc::load_from("--weights", file, s.weights_key,
                            [&](auto tensors) { return nn::models::load_weights(model, std::move(tensors)); });
    });
  }
  if (!s.init.empty())
    run_together(*group, [&] {
      voc::load_from("--init", s.init, s.weights_key, [&](const auto& tensors) { model.load_state_dict(tensors); });
    });

  const auto download = [&]() -> std::string {
    for (const auto& image_set : {s.image_set, s.val_set})
      data::download_voc(s.data, s.year, image_set, {.report = report});
    return "";
  };
  once_per_host(*group, download, download_work);
  const auto [files, val_files] = run_together(*group, [&] {
    if (!s.predict.empty()) {
      create_folder(s.predict, "for predictions");
      const AtomicFile probe(std::filesystem::path(s.predict) / "prediction.png");
    }
    return std::pair{open_voc(s, s.image_set), open_voc(s, s.val_set)};
  });
  check_same_files(*group, files, s.image_set);
  check_same_files(*group, val_files, s.val_set);
  Pictures pictures(files, transform, s, options.seed);
  auto loading = options.loader_options(*group);
  loading.shuffle = s.shuffle;
  loading.drop_last = true;
  data::Loader loader(pictures, loading);
  TANDEM_CHECK(loader.size() > 0 || options.epochs == 0, "--batch-size ", options.batch_size, ": ",
               (pictures.size() + group->size() - 1) / group->size(), " of the ", pictures.size(), " pictures of '",
               s.image_set, "' are each process's share, less than one batch");

  Trainer trainer(options, group, model, [&] { return std::make_unique<SegmentationModel>(make_model(s)); });
  optim::SGD optimizer(parameter_groups(model, s));
  trainer.use(optimizer, [](std::int64_t steps) { return optim::PolynomialLR{.total_iters = steps, .power = 0.9}; });
  trainer.leave_out([](const data::Batch& batch) { return data::is_void(batch.targets); });
  trainer.note(s.model + ", VOC " + s.year + " in " + s.data + ": " + std::to_string(files.size()) + " pictures of '" +
               s.image_set + "' to train on, " + std::to_string(val_files.size()) + " of '" + s.val_set +
               "' to evaluate on");
  for (const auto& notice : notices) trainer.note("note: " + notice);
  for (const auto& [set, data] : {std::pair(s.image_set, &files), {s.val_set, &val_files}})
    for (const auto& [name, reason] : data->skipped())
      trainer.note("left out of '" + set + "': " + name + ": " + reason);
  std::string learned;
  trainer.fit(loader, loss_of, [&] { return evaluate(trainer, model, *group, val_files, s, options, learned); });
  trainer.note(learned);
  trainer.note("peak memory: " + std::to_string(memory_stats(options.device()).peak_bytes_in_use >> 20) +
               " MiB of arrays");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "predict") return voc::predict_main(argc - 1, argv + 1);
  TrainingOptions options("voc_ddp",
                          "Trains a network for semantic segmentation on PASCAL VOC, on one process or several. "
                          "voc_ddp predict --help says how to use it on pictures afterwards.");
  Settings settings;
  add_options(options, settings);
  return options.run(argc, argv, [&] { train(options, settings); });
}
