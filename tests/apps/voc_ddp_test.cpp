// The built voc_ddp, alone and through tandemrun, on the pictures of tests/data/voc_sample.
#include <tandem/core/io/arrays_file.h>
#include <tandem/data/images/image_file.h>
#include <tandem/data/images/image_png.h>

#include <support/running_process.h>

#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>

#include "support/sanitizers.h"
#include "support/voc_ddp_fixture.h"

namespace tandem {
namespace {

using testing::voc_sample;
using testing::VocDdp;

TEST_F(VocDdp, trains_evaluates_and_predicts) {
  const auto outcome = train(1, {"--batch-size", "2", "--epochs", "2", "--metrics", path("metrics"), "--log-every", "1",
                                 "--log-dir", path("logs"), "--predict", path("masks"), "--save", path("model.pth")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto written = lines("metrics");
  ASSERT_EQ(written.size(), 4u);
  EXPECT_DOUBLE_EQ(written[0]["lr"], 0.01);
  EXPECT_NEAR(written[2]["lr"], 0.01 * std::pow(0.5, 0.9), 1e-12);  // half of the two steps are done
  const auto& epoch = written[3];
  EXPECT_EQ(epoch["kind"], "epoch");
  EXPECT_GE(epoch["miou"].get<double>(), 0);
  EXPECT_LE(epoch["pixel_accuracy"].get<double>(), 1);
  ASSERT_EQ(epoch["class_iou"].size(), 21u);
  EXPECT_EQ(epoch["classes"]["rows"][15], "person");
  EXPECT_EQ(epoch["classes"]["columns"]["IoU"], epoch["class_iou"]);
  EXPECT_EQ(epoch["confusion"]["columns"].size(), 21u);
  double pixels = 0;
  for (const auto& column : epoch["confusion"]["columns"])
    for (const double count : column) pixels += count;
  const double right = epoch["confusion"]["columns"]["background"][0];
  EXPECT_GT(right, 0);
  EXPECT_LE(right, epoch["pixel_accuracy"].get<double>() * pixels + 0.5);
  for (const char* name : {"scene_a", "scene_b", "scene_c"}) {
    const data::MaskFile mask(path("masks") + '/' + name + ".png");
    const data::MaskFile truth(voc_sample + "/VOCdevkit/VOC2012/SegmentationClass/" + name + ".png");
    EXPECT_EQ(mask.height(), truth.height());
    EXPECT_EQ(mask.width(), truth.width());
  }
  EXPECT_FALSE(std::filesystem::is_empty(folder / "logs"));

  const auto predicted = run(1, {"predict", voc_sample + "/VOCdevkit/VOC2012/JPEGImages/scene_a.jpg", "--weights",
                                 path("model.pth"), "--output", path("out"), "--base", "33"});
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_TRUE(testing::read_bytes(folder / "out/scene_a.png") == testing::read_bytes(folder / "masks/scene_a.png"));
  EXPECT_TRUE(std::filesystem::exists(folder / "out/scene_a_overlay.png"));
}

// Each of the two replicas has the losses of both heads for its part of the batch, and its own dropout.
TEST_F(VocDdp, trains_replicas_in_one_process) {
  const auto outcome = train(1, {"--model", "fcn_resnet18", "--batch-size", "2", "--epochs", "1", "--strategy", "dp",
                                 "--threads", "2", "--metrics", path("metrics")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  testing::expect_parts(outcome.err, {"strategy dp: 2 replicas of the model"});
  EXPECT_TRUE(std::isfinite(lines("metrics").back()["total_loss"].get<double>()));
}

TEST_F(VocDdp, processes_share_the_pictures_to_predict) {
  ASSERT_EQ(train(1, {"--batch-size", "2", "--epochs", "1", "--save", path("model.pth")}).code, 0);
  const std::string pictures = voc_sample + "/VOCdevkit/VOC2012/JPEGImages/";
  const auto predict = [&](int processes, const std::string& output, std::vector<std::string> more) {
    std::vector<std::string> arguments = {"predict", "--weights", path("model.pth"), "--base",
                                          "33",      "--output",  path(output)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(processes, arguments);
  };
  const std::vector<std::string> all = {pictures + "scene_a.jpg", pictures + "scene_b.jpg", pictures + "scene_c.jpg"};
  const auto alone = predict(1, "alone", all), shared = predict(2, "shared", all);
  ASSERT_EQ(alone.code, 0) << alone.err;
  ASSERT_EQ(shared.code, 0) << shared.err;
  for (const std::string name : {"scene_a", "scene_b", "scene_c"})
    for (const std::string& file : {name + ".png", name + "_overlay.png"})
      EXPECT_TRUE(testing::read_bytes(folder / "alone" / file) == testing::read_bytes(folder / "shared" / file));
  // The paths in a form that another program can use, in the order of the arguments.
  const auto paths = [&](const std::string& output) {
    std::string lines;
    for (const char* name : {"scene_a", "scene_b", "scene_c"}) lines += path(output) + "/" + name + ".png\n";
    return lines;
  };
  EXPECT_EQ(alone.out, paths("alone"));
  EXPECT_EQ(shared.out, paths("shared"));

  // voc_ddp reports files that can't be read or don't fit into memory, and processes the others.
  testing::write_bytes(folder / "cut.jpg", testing::read_bytes(pictures + "scene_a.jpg").substr(0, 900));
  ASSERT_EQ(::mkfifo(path("pipe.jpg").c_str(), 0600), 0);
  testing::write_bytes(folder / "long.pgm", "P5 600000 1 255\n" + std::string(600000, 'x'));
  std::filesystem::create_directory(folder / "folder");
  testing::write_bytes(folder / "modern.jpg", std::string("RIFF\x1a\0\0\0WEBPVP8L", 16));
  for (const int processes : {1, 2}) {
    const std::string output = "rest" + std::to_string(processes);
    const auto outcome = predict(processes, output,
                                 {path("cut.jpg"), path("folder"), path("pipe.jpg"), path("long.pgm"), all[1],
                                  path("none.jpg"), all[2], path("modern.jpg"), "--quiet"});
    EXPECT_EQ(outcome.code, 1);
    for (const std::string words :
         {"cut.jpg cannot be decoded", "folder: is not a regular file", "pipe.jpg: is not a regular file",
          "none.jpg: cannot be opened: No such file", "it is WebP; JPEG, PNG, BMP and PNM are read",
          "5 pictures have no prediction; the others are done"})
      EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(testing::files_in(folder / output),
              (std::vector<std::string>{"long.png", "long_overlay.png", "scene_b.png", "scene_b_overlay.png",
                                        "scene_c.png", "scene_c_overlay.png"}));
    EXPECT_EQ(data::MaskFile(folder / output / "long.png").width(), 600000);
  }

  const auto expect = [&](int code, const std::string& output, std::vector<std::string> more,
                          const std::string& words) {
    const auto outcome = predict(1, output, more);
    EXPECT_EQ(outcome.code, code) << words;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  };
  const std::string mask = testing::read_bytes(folder / "alone/scene_a.png");
  expect(2, "alone", {path("alone/scene_a.png")}, "is one of the pictures");
  EXPECT_TRUE(testing::read_bytes(folder / "alone/scene_a.png") == mask);
  expect(2, "x", {all[0], path("cut/scene_a.png")}, "two of the pictures");
  // A mask that belongs to an image of the data set is not overwritten either.
  const std::string year = path("data/VOCdevkit/VOC2012/");
  std::filesystem::copy(voc_sample, folder / "data", std::filesystem::copy_options::recursive);
  const std::string truth = testing::read_bytes(year + "SegmentationClass/scene_a.png");
  expect(2, "data/VOCdevkit/VOC2012/SegmentationClass", {year + "JPEGImages/scene_a.jpg"}, "is inside a data set");
  EXPECT_TRUE(testing::read_bytes(year + "SegmentationClass/scene_a.png") == truth);
  expect(2, "x", {}, "IMAGE is required");
  expect(2, "x", {all[0], "--weights", "nonsense"}, "deeplabv3_resnet101_coco");
  expect(2, "x", {all[0], "--epochs", "2"}, "--epochs: unknown; --help lists all options");
  EXPECT_FALSE(std::filesystem::exists(folder / "x"));
  expect(1, "cut.jpg", {all[0]}, "can't create the folder " + path("cut.jpg"));
  expect(1, "x", {all[0], "--weights", path("cut.jpg")}, "neither a safetensors file nor a .pth file");
}

// An image from a camera held upright, and an image that needs more memory than is available.
TEST_F(VocDdp, predicts_photographs_of_all_kinds) {
  ASSERT_EQ(train(1, {"--batch-size", "2", "--epochs", "1", "--save", path("model.pth")}).code, 0);
  const std::string jpeg = testing::read_bytes(voc_sample + "/VOCdevkit/VOC2012/JPEGImages/scene_a.jpg");
  // Exif data with one tag: orientation 6, which means that the image must be turned to the right.
  const std::string exif(
      "\xff\xe1\0\x22"
      "Exif\0\0MM\0*\0\0\0\x8\0\1\x1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0",
      36);
  testing::write_bytes(folder / "held.jpg", jpeg.substr(0, 2) + exif + jpeg.substr(2));
  testing::write_bytes(folder / "stored.jpg", jpeg);
  testing::write_bytes(folder / "huge.pgm", "P5 16384 16384 255\n");
  std::filesystem::resize_file(folder / "huge.pgm", (std::size_t{1} << 28) + 19);  // zeros, which use no disk space
  // A sanitizer needs more address space than this limit allows.
  const bool is_limited = testing::sanitizer_factor == 1;
  const auto outcome = testing::run_process(
      {"sh", "-c",
       (is_limited ? "ulimit -v 1000000; exec " : "exec ") + std::string(TANDEM_PROGRAM_DIR "/voc_ddp predict ") +
           (is_limited ? path("huge.pgm") + " " : "") + path("held.jpg") + " " + path("stored.jpg") +
           " --base 33 --weights " + path("model.pth") + " --output " + path("out")},
      {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(outcome.code, is_limited ? 1 : 0) << outcome.err;
  if (is_limited) testing::expect_parts(outcome.err, {"huge.pgm", "1 picture has no prediction; the others are done"});
  const data::MaskFile held(folder / "out/held.png"), stored(folder / "out/stored.png");
  EXPECT_EQ(held.height(), stored.width());
  EXPECT_EQ(held.width(), stored.height());
  EXPECT_GE(data::ImageFile(folder / "out/held_overlay.png").height(), held.height());
}

TEST_F(VocDdp, evaluates_at_full_size_and_compares) {
  ASSERT_EQ(train(1, {"--batch-size", "2", "--epochs", "1", "--save", path("model.pth")}).code, 0);
  const auto evaluate = [&](int processes, std::vector<std::string> more) {
    more.insert(more.end(), {"--epochs", "0", "--init", path("model.pth"), "--metrics", path("metrics")});
    const auto outcome = train(processes, more);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return lines("metrics").back();
  };
  const auto resized = evaluate(1, {});
  const auto full = evaluate(1, {"--full-size", "--predict", path("masks"), "--compare"});
  EXPECT_NE(full["pixel_accuracy"], resized["pixel_accuracy"]);
  EXPECT_EQ(evaluate(2, {"--full-size"})["class_iou"], full["class_iou"]);
  // The metric is computed from the written masks.
  std::int64_t right = 0, all = 0;
  for (const std::string name : {"scene_a", "scene_b", "scene_c"}) {
    const Array found = data::MaskFile(path("masks") + "/" + name + ".png").read();
    const Array truth = data::MaskFile(voc_sample + "/VOCdevkit/VOC2012/SegmentationClass/" + name + ".png").read();
    for (std::int64_t i = 0; i < truth.numel(); ++i) {
      const int label = truth.data<std::uint8_t>()[i];
      all += label != 255;
      right += label != 255 && label == found.data<std::uint8_t>()[i];
    }
    const data::ImageFile compared(path("masks") + "/" + name + "_compare.png");
    EXPECT_GE(compared.width(), 3 * truth.dim(1));
    EXPECT_GE(compared.height(), truth.dim(0));
  }
  EXPECT_DOUBLE_EQ(full["pixel_accuracy"], static_cast<double>(right) / static_cast<double>(all));
}

TEST_F(VocDdp, two_processes_with_one_picture_each_resume_to_the_bit) {
  const std::vector<std::string> common = {"--batch-size", "1", "--epochs", "2", "--sync-bn"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), common.begin(), common.end());
    const auto outcome = train(2, more);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  };
  with({"--save", path("whole.safetensors")});
  with({"--checkpoint", path("c"), "--max-steps", "1"});
  with({"--checkpoint", path("c"), "--max-steps", "3", "--resume"});
  with({"--checkpoint", path("c"), "--resume", "--save", path("resumed.safetensors")});
  EXPECT_TRUE(testing::read_bytes(folder / "whole.safetensors") == testing::read_bytes(folder / "resumed.safetensors"));
}

// On a signal, the job saves a checkpoint after the running step. It does the same at a time limit.
TEST_F(VocDdp, a_signal_leaves_a_checkpoint_from_which_it_goes_on) {
  const std::vector<std::string> common = {"--batch-size", "1", "--sync-bn", "--checkpoint", path("c"), "--resume"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), common.begin(), common.end());
    return small_training(more);
  };
  const auto newest = [&] {
    const auto names = testing::files_in(path("c"));
    const auto is_one = [](const std::string& name) {
      return name.starts_with("checkpoint-") && name.ends_with(".safetensors");
    };
    const auto last = std::find_if(names.rbegin(), names.rend(), is_one);
    return last == names.rend() ? 0 : std::stoi(last->substr(last->rfind('-') + 1));
  };
  int before = 0;
  for (const auto& [signal, word, code] : {std::tuple(SIGTERM, "SIGTERM", 128 + SIGTERM), {SIGUSR1, "SIGUSR1", 0}}) {
    testing::RunningProcess running(command(2, with({"--epochs", "1000000", "--save-every-steps", "1"})),
                                    {{"OMP_NUM_THREADS", "1"}});
    ASSERT_TRUE(testing::eventually([&] { return std::filesystem::exists(path("c")) && newest() > before; },
                                    std::chrono::seconds(60)))
        << running.err();
    running.send(signal);
    EXPECT_EQ(running.finish(), code) << running.err();
    before = newest();
    const auto said = std::string("stopped by ") + word + " after " + std::to_string(before) + " step";
    EXPECT_NE(running.err().find(said), std::string::npos) << running.err();
  }
  const auto limited = run(2, with({"--epochs", "1000000", "--max-time", "1s"}));
  EXPECT_EQ(limited.code, 0) << limited.err;
  EXPECT_GT(newest(), before);
  EXPECT_NE(limited.err.find(" done, " + std::to_string(before) + " step"), std::string::npos) << limited.err;
}

TEST_F(VocDdp, starts_from_weights_and_says_what_they_lack) {
  ASSERT_EQ(train(1, {"--batch-size", "2", "--epochs", "1", "--save", path("model.safetensors")}).code, 0);
  const auto evaluate = [&](std::vector<std::string> from) {
    from.insert(from.end(), {"--epochs", "0"});
    return train(1, from);
  };
  const auto strict = evaluate({"--init", path("model.safetensors"), "--metrics", path("metrics")});
  EXPECT_EQ(strict.code, 0) << strict.err;
  const auto written = lines("metrics");
  ASSERT_EQ(written.size(), 1u);
  EXPECT_EQ(written[0]["kind"], "evaluation");
  EXPECT_EQ(written[0]["step"], 0);
  EXPECT_EQ(written[0]["class_iou"].size(), 21u);
  EXPECT_NE(strict.out.find("miou"), std::string::npos) << strict.out;
  EXPECT_EQ(evaluate({"--weights", path("model.safetensors")}).out, strict.out);

  // The weights of only the backbone, under the names of a ResNet.
  std::vector<NamedArray> backbone;
  const std::string prefix = "backbone.";
  for (const auto& [name, array] : load_arrays(path("model.safetensors")))
    if (name.starts_with(prefix)) backbone.push_back({name.substr(prefix.size()), array});
  save_arrays(path("resnet.pth"), backbone);
  const auto half = evaluate({"--weights", path("resnet.pth")});
  EXPECT_EQ(half.code, 0) << half.err;
  EXPECT_NE(half.err.find("the heads start untrained"), std::string::npos) << half.err;
  const auto other = evaluate({"--init", path("resnet.pth")});
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.err.find("--init " + path("resnet.pth") + ": "), std::string::npos) << other.err;

  // A checkpoint holds more than the model, but only the model is used.
  const std::string checkpoint = path("c/checkpoint-0001-00000001.safetensors");
  ASSERT_EQ(train(1, {"--batch-size", "2", "--epochs", "1", "--checkpoint", path("c")}).code, 0);
  for (const char* option : {"--init", "--weights"}) {
    const auto outcome = evaluate({option, checkpoint});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, strict.out) << option;
  }
  for (const auto& [file, name] : {std::pair(path("model.safetensors"), "model"), {checkpoint, "checkpoint"}}) {
    const auto outcome = run(1, {"predict", voc_sample + "/VOCdevkit/VOC2012/JPEGImages/scene_a.jpg", "--weights", file,
                                 "--output", path(name)});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
  const auto masks = testing::files_in(path("model"));
  ASSERT_EQ(masks.size(), 2u);
  for (const auto& mask : masks)
    EXPECT_TRUE(testing::read_bytes(path("model") + "/" + mask) ==
                testing::read_bytes(path("checkpoint") + "/" + mask));
}

// Weights in the forms that users have: from before 2019, from DistributedDataParallel, compiled, and in checkpoints.
TEST_F(VocDdp, takes_weights_under_the_names_of_other_programs) {
  ASSERT_EQ(train(1, {"--batch-size", "2", "--epochs", "1", "--save", path("model.pth")}).code, 0);
  const auto model = load_arrays(path("model.pth"));
  const auto save = [&](const std::string& name, const std::string& prefix, bool has_counts) {
    std::vector<NamedArray> arrays;
    for (const auto& [own, array] : model)
      if (has_counts || !own.ends_with("num_batches_tracked")) arrays.push_back({prefix + own, array});
    save_arrays(path(name), arrays);
  };
  save("before_2019.pth", "", false);
  save("of_ddp.safetensors", "module.", true);
  save("compiled.pth", "_orig_mod.", true);
  const auto evaluated = [&](const std::string& option, const std::string& name) {
    const auto outcome = train(1, {option, path(name), "--epochs", "0"});
    EXPECT_EQ(outcome.code, 0) << name << outcome.err;
    return outcome.out;
  };
  const auto predicted = [&](const std::string& name) {
    const auto outcome = run(1, {"predict", voc_sample + "/VOCdevkit/VOC2012/JPEGImages/scene_a.jpg", "--weights",
                                 path(name), "--base", "33", "--output", path("out")});
    EXPECT_EQ(outcome.code, 0) << name << outcome.err;
    return testing::read_bytes(folder / "out/scene_a.png");
  };
  const auto expected = evaluated("--init", "model.pth");
  const auto mask = predicted("model.pth");
  for (const std::string name : {"before_2019.pth", "of_ddp.safetensors", "compiled.pth"}) {
    for (const char* option : {"--weights", "--init"}) EXPECT_EQ(evaluated(option, name), expected) << name;
    EXPECT_EQ(predicted(name), mask) << name;
  }
}

TEST_F(VocDdp, an_option_chooses_the_entry_of_a_checkpoint) {
  const std::string checkpoint = path("c/checkpoint-0001-00000001.safetensors");
  ASSERT_EQ(train(1, {"--batch-size", "2", "--epochs", "1", "--checkpoint", path("c")}).code, 0);
  for (const char* option : {"--init", "--weights"}) {
    EXPECT_EQ(train(1, {option, checkpoint, "--weights-key", "model", "--epochs", "0"}).code, 0);
    const auto other = train(1, {option, checkpoint, "--weights-key", "net", "--epochs", "0"});
    EXPECT_EQ(other.code, 1);
    EXPECT_NE(other.err.find("has no \"net\"; it has \"model\""), std::string::npos) << other.err;
  }
  EXPECT_EQ(train(1, {"--weights-key", "net"}).code, 2);
}

TEST_F(VocDdp, says_what_is_wrong) {
  const auto expect = [&](int code, std::vector<std::string> arguments, const std::string& words) {
    const auto outcome = train(1, arguments);
    EXPECT_EQ(outcome.code, code) << words;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  };
  expect(1, {"--batch-size", "4"}, "less than one batch");
  expect(1, {"--batch-size", "1"}, "SyncBatchNorm");  // one value per channel after the pooling
  expect(2, {"--min-scale", "2", "--max-scale", "1"}, "from min_scale 2 to max_scale 1");
  expect(1, {"--epochs", "0", "--predict", "/dev/null/masks"}, "can't create the folder /dev/null/masks");
  for (const int processes : {1, 2}) {
    for (const auto& [arguments, words] : std::vector<std::pair<std::vector<std::string>, std::string>>{
             {{"--model", "unet"}, "--model: there is no segmentation model 'unet'"},
             {{"--year", "2099"}, "--year 2099: expected 2007, "},
             {{"--weights", "nonsense"}, "--weights: there are no weights 'nonsense'"},
             {{"--weights", "file:///tmp/model.pth"}, "SHA-256"},
             {{"--init", path("none.pth")}, "none.pth: there is no such file"}}) {
      const auto outcome = train(processes, arguments);
      EXPECT_EQ(outcome.code, 2) << words;
      EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
    }
  }
  expect(2, {"--crop", "0"}, "--crop 0");
  expect(2, {"--dropout", "2"}, "--dropout 2");
  expect(2, {"--no-augmentation"}, "unknown");
  expect(2, {"--compare"}, "--compare: needs --predict DIR");
  expect(2, {"--no-augment", "--max-scale", "1"}, "--no-augment turns random resizing off");
  std::filesystem::create_directories(folder / "deep/VOCdevkit/VOC2012");
  expect(2, {"--data", path("deep/VOCdevkit/")}, "give the folder that contains VOCdevkit");
  EXPECT_EQ(run(1, {"predict"}).code, 2);
  EXPECT_EQ(run(1, {"predict", "--help"}).code, 0);
}

}  // namespace
}  // namespace tandem
