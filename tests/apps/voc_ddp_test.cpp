// The built voc_ddp, alone and through tandemrun, on the pictures of tests/data/voc_sample.
#include <tandem/core/io/arrays_file.h>
#include <tandem/data/images/image_png.h>

#include <cmath>

#include "apps/voc_ddp_fixture.h"

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
  EXPECT_NEAR(written[2]["lr"], 0.01 * std::pow(0.5, 0.9), 1e-12);  // half of two steps are done
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

// Two replicas, each with the losses of both heads of its part of the batch, and dropout of its own.
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
  for (const std::string name : {"scene_a", "scene_b", "scene_c"}) {
    for (const std::string& file : {name + ".png", name + "_overlay.png"})
      EXPECT_TRUE(testing::read_bytes(folder / "alone" / file) == testing::read_bytes(folder / "shared" / file));
    // By one of them.
    const auto said = shared.out.find(name + ".png");
    EXPECT_NE(said, std::string::npos) << shared.out;
    EXPECT_EQ(shared.out.find(name + ".png", said + 1), std::string::npos) << shared.out;
  }

  // What can't be read is named; the rest is done.
  testing::write_bytes(folder / "cut.jpg", testing::read_bytes(pictures + "scene_a.jpg").substr(0, 900));
  ASSERT_EQ(::mkfifo(path("pipe.jpg").c_str(), 0600), 0);
  testing::write_bytes(folder / "long.pgm", "P5 600000 1 255\n" + std::string(600000, 'x'));
  std::filesystem::create_directory(folder / "folder");
  for (const int processes : {1, 2}) {
    const std::string output = "rest" + std::to_string(processes);
    const auto outcome = predict(processes, output,
                                 {path("cut.jpg"), path("folder"), path("pipe.jpg"), path("long.pgm"), all[1],
                                  path("none.jpg"), all[2], "--quiet"});
    EXPECT_EQ(outcome.code, 1);
    for (const std::string words :
         {"cut.jpg cannot be decoded", "folder: is not a regular file", "pipe.jpg: is not a regular file",
          "long.pgm: a picture of 600000 x 1 pixels is too long", "none.jpg: cannot be opened: No such file",
          "have no prediction; the others are done"})
      EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(testing::files_in(folder / output),
              (std::vector<std::string>{"scene_b.png", "scene_b_overlay.png", "scene_c.png", "scene_c_overlay.png"}));
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
  // Nor a mask of the data set that a picture is of.
  const std::string year = path("data/VOCdevkit/VOC2012/");
  std::filesystem::copy(voc_sample, folder / "data", std::filesystem::copy_options::recursive);
  const std::string truth = testing::read_bytes(year + "SegmentationClass/scene_a.png");
  expect(2, "data/VOCdevkit/VOC2012/SegmentationClass", {year + "JPEGImages/scene_a.jpg"},
         "that folder is a data set's");
  EXPECT_TRUE(testing::read_bytes(year + "SegmentationClass/scene_a.png") == truth);
  expect(2, "x", {}, "IMAGE is required");
  expect(2, "x", {all[0], "--weights", "nonsense"}, "deeplabv3_resnet101_coco");
  expect(2, "x", {all[0], "--epochs", "2"}, "--epochs: unknown; --help lists all options");
  EXPECT_FALSE(std::filesystem::exists(folder / "x"));
  expect(1, "cut.jpg", {all[0]}, "can't create the folder " + path("cut.jpg"));
  expect(1, "x", {all[0], "--weights", path("cut.jpg")}, "neither a safetensors file nor a .pth file");
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

  // Of the backbone alone, under the names of a ResNet.
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

  // A checkpoint holds more than a model.
  ASSERT_EQ(train(1, {"--batch-size", "2", "--epochs", "1", "--checkpoint", path("c")}).code, 0);
  for (const char* option : {"--init", "--weights"}) {
    const auto outcome = evaluate({option, path("c/checkpoint-0001-00000001.safetensors")});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.err.find("is a checkpoint, not a model"), std::string::npos) << outcome.err;
  }
}

TEST_F(VocDdp, says_what_is_wrong) {
  const auto expect = [&](int code, std::vector<std::string> arguments, const std::string& words) {
    const auto outcome = train(1, arguments);
    EXPECT_EQ(outcome.code, code) << words;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  };
  expect(1, {"--batch-size", "4"}, "less than one batch");
  expect(1, {"--batch-size", "1"}, "SyncBatchNorm");  // a single value per channel behind the pooling
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
  expect(2, {"--no-augment", "--max-scale", "1"}, "nothing is resized at random with --no-augment");
  std::filesystem::create_directories(folder / "deep/VOCdevkit/VOC2012");
  expect(2, {"--data", path("deep/VOCdevkit/")}, "name the folder that VOCdevkit is in");
  EXPECT_EQ(run(1, {"predict"}).code, 2);
  EXPECT_EQ(run(1, {"predict", "--help"}).code, 0);
}

}  // namespace
}  // namespace tandem
