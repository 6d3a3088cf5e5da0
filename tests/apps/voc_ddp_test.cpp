// The built voc_ddp, alone and through tandemrun, on the pictures of tests/data/voc_sample.
#include <tandem/core/io/arrays_file.h>
#include <tandem/data/image_png.h>

#include <gtest/gtest.h>
#include <support/process.h>
#include <support/temporary_folder.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace tandem {
namespace {

const std::string voc_ddp = TANDEM_PROGRAM_DIR "/voc_ddp", tandemrun = TANDEM_PROGRAM_DIR "/tandemrun";
const std::string sample = TANDEM_SOURCE_DIR "/tests/data/voc_sample";

class VocDdp : public ::testing::Test {
 protected:
  testing::TemporaryFolder folder;
  std::string path(const std::string& name) const { return (folder / name).string(); }

  static testing::Outcome run(int processes, std::vector<std::string> arguments) {
    std::vector<std::string> command;
    if (processes > 1) command = {tandemrun, "--nproc-per-node", std::to_string(processes)};
    command.push_back(voc_ddp);
    command.insert(command.end(), arguments.begin(), arguments.end());
    return testing::run_process(command, {{"OMP_NUM_THREADS", "1"}});
  }
  // Three pictures, small: batches of one per process need --sync-bn, or statistics of one value would fail.
  static testing::Outcome train(int processes, std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "--data", sample, "--image-set", "trainval", "--val-set", "trainval", "--model", "deeplabv3_resnet18",
        "--crop", "33",   "--base",      "33",       "--workers", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(processes, arguments);
  }
  std::vector<nlohmann::json> lines(const std::string& name) const {
    std::vector<nlohmann::json> result;
    std::ifstream file(folder / name);
    for (std::string line; std::getline(file, line);) result.push_back(nlohmann::json::parse(line));
    return result;
  }
};

TEST_F(VocDdp, trains_evaluates_and_predicts) {
  const auto outcome =
      train(1, {"--batch-size", "2", "--epochs", "2", "--metrics", path("metrics"), "--log-every", "1",
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
  for (const char* name : {"scene_a", "scene_b", "scene_c"}) {
    const data::MaskFile mask(path("masks") + '/' + name + ".png");
    const data::MaskFile truth(sample + "/VOCdevkit/VOC2012/SegmentationClass/" + name + ".png");
    EXPECT_EQ(mask.height(), truth.height());
    EXPECT_EQ(mask.width(), truth.width());
  }
  EXPECT_FALSE(std::filesystem::is_empty(folder / "logs"));

  const auto predicted = run(1, {"predict", sample + "/VOCdevkit/VOC2012/JPEGImages/scene_a.jpg", "--weights",
                                 path("model.pth"), "--output", path("out"), "--base", "33"});
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_TRUE(testing::read_bytes(folder / "out/scene_a.png") ==
              testing::read_bytes(folder / "masks/scene_a.png"));
  EXPECT_TRUE(std::filesystem::exists(folder / "out/scene_a_overlay.png"));
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
  EXPECT_TRUE(testing::read_bytes(folder / "whole.safetensors") ==
              testing::read_bytes(folder / "resumed.safetensors"));
}

TEST_F(VocDdp, starts_from_weights_and_says_what_they_lack) {
  ASSERT_EQ(train(1, {"--batch-size", "2", "--epochs", "1", "--save", path("model.safetensors")}).code, 0);
  const auto evaluate = [&](std::vector<std::string> from) {
    from.insert(from.end(), {"--epochs", "0"});
    return train(1, from);
  };
  const auto strict = evaluate({"--init", path("model.safetensors")});
  EXPECT_EQ(strict.code, 0) << strict.err;
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
  EXPECT_EQ(evaluate({"--init", path("resnet.pth")}).code, 1);
}

TEST_F(VocDdp, says_what_is_wrong) {
  const auto expect = [&](int code, std::vector<std::string> arguments, const std::string& words) {
    const auto outcome = train(1, arguments);
    EXPECT_EQ(outcome.code, code) << words;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  };
  expect(1, {"--model", "unet"}, "there is no segmentation model 'unet'");
  expect(1, {"--batch-size", "4"}, "less than one batch");
  expect(1, {"--batch-size", "1"}, "SyncBatchNorm");  // a single value per channel behind the pooling
  expect(1, {"--weights", "nonsense", "--batch-size", "2"}, "deeplabv3_resnet101_coco");
  expect(1, {"--weights", "file:///tmp/model.pth", "--batch-size", "2"}, "SHA-256");
  expect(2, {"--crop", "0"}, "--crop 0");
  expect(2, {"--dropout", "2"}, "--dropout 2");
  expect(2, {"--no-augmentation"}, "unknown");
  EXPECT_EQ(run(1, {"predict"}).code, 2);
  EXPECT_EQ(run(1, {"predict", "--help"}).code, 0);
}

}  // namespace
}  // namespace tandem
