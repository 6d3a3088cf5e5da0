// Damaged or malicious data and weights. voc_ddp must report the problem and its place, and no process may wait for a
// failed one.
#include <tandem/data/images/image_png.h>
#include <tandem/data/segmentation/segmentation_picture.h>

#include <functional>

#include "support/http_server.h"
#include "support/voc_ddp_fixture.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using testing::read_bytes;
using testing::VocDdp;
using testing::write_bytes;

class VocDdpFailures : public VocDdp {
 protected:
  // Runs voc_ddp alone and as two processes, on a copy of the sample that `damage` has changed. `damage` gets the
  // folder of scene_a's files.
  void expect(const std::vector<std::string>& words, const std::function<void(const fs::path& year)>& damage,
              const std::vector<std::string>& more = {}) {
    fs::remove_all(folder / "data");
    fs::copy(testing::voc_sample, folder / "data", fs::copy_options::recursive);
    damage(folder / "data/VOCdevkit/VOC2012");
    for (const int processes : {1, 2}) {
      // In one epoch, one process reads every sample, and two processes take turns.
      std::vector<std::string> arguments = {
          "--data", path("data"),     "--epochs", "1", "--sync-bn", "--batch-size", processes == 1 ? "3" : "1",
          "--save", path("model.pth")};
      arguments.insert(arguments.end(), more.begin(), more.end());
      const auto outcome = train(processes, arguments);
      EXPECT_EQ(outcome.code, 1) << processes << " processes: " << outcome.err;
      for (const auto& word : words) EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
      EXPECT_LT(outcome.seconds, 60) << "a process waited for the failed one";
      EXPECT_FALSE(fs::exists(folder / "model.pth"));
    }
  }
};

void cut(const fs::path& path) {
  const std::string bytes = read_bytes(path);
  write_bytes(path, bytes.substr(0, bytes.size() / 2));
}

TEST_F(VocDdpFailures, damaged_samples) {
  expect({"scene_a.jpg cannot be decoded", "--skip-bad skips damaged samples"},
         [](const fs::path& year) { cut(year / "JPEGImages/scene_a.jpg"); });
  expect({"scene_a.png cannot be decoded"}, [](const fs::path& year) { cut(year / "SegmentationClass/scene_a.png"); });
  expect({"scene_a.png holds the label 21", "0 to 20 or 255"}, [](const fs::path& year) {
    const fs::path mask = year / "SegmentationClass/scene_a.png";
    Array labels = data::MaskFile(mask).read();
    for (std::int64_t i = 0; i < labels.numel(); ++i)
      if (labels.data<std::uint8_t>()[i] == 0) labels.data<std::uint8_t>()[i] = 21;
    data::write_png(mask, labels, data::voc_colours());
  });
  expect({"scene_a.jpg is 37 high and 52 wide", "must be equal"}, [](const fs::path& year) {
    fs::copy_file(year / "SegmentationClass/scene_b.png", year / "SegmentationClass/scene_a.png",
                  fs::copy_options::overwrite_existing);
  });
  expect({"trainval.txt is empty"},
         [](const fs::path& year) { write_bytes(year / "ImageSets/Segmentation/trainval.txt", ""); });
}

TEST_F(VocDdpFailures, predictions_never_replace_the_masks) {
  fs::copy(testing::voc_sample, folder / "data", fs::copy_options::recursive);
  const fs::path year = folder / "data/VOCdevkit/VOC2012", mask = year / "SegmentationClass/scene_a.png";
  const std::string truth = read_bytes(mask);
  fs::create_directory(folder / "elsewhere");
  fs::create_directory_symlink(folder / "elsewhere", year / "SegmentationObject");
  fs::create_directory_symlink(year / "SegmentationClass", folder / "link");
  for (const fs::path& predictions :
       {year / "SegmentationClass", year / "SegmentationClass/", year / "SegmentationObject", folder / "link"}) {
    for (const int processes : {1, 2}) {
      const auto outcome = train(
          processes, {"--data", path("data"), "--batch-size", "1", "--epochs", "0", "--predict", predictions.string()});
      EXPECT_EQ(outcome.code, 2) << predictions;
      EXPECT_NE(outcome.err.find("is inside a data set"), std::string::npos) << outcome.err;
    }
    EXPECT_TRUE(read_bytes(mask) == truth);
    EXPECT_TRUE(fs::is_empty(folder / "elsewhere"));
  }
}

TEST_F(VocDdpFailures, weights_made_to_harm) {
  const auto nothing = [](const fs::path&) {};
  // A pickle that would call os.system. It is in the old format, from before PyTorch used zip files, in which pickles
  // follow the magic number.
  const std::string magic = std::string("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
  const std::string rest = "\x80\x02M\xe9\x03.\x80\x02}.";  // protocol 1001, no information about the system
  write_bytes(folder / "evil.pth",
              magic + rest + "\x80\x02" + "cposix\nsystem\nX" + std::string("\x04\0\0\0", 4) + "true\x85R.");
  const std::string no_storages = "\x80\x02].";
  write_bytes(folder / "deep.pth",
              magic + rest + "\x80\x02" + std::string(100000, ']') + std::string(99999, 'a') + "." + no_storages);
  for (const char* option : {"--weights", "--init"})
    expect({"evil.pth", "refused the pickle global posix.system"}, nothing, {option, path("evil.pth")});
  expect({"deep.pth", "nested deeper"}, nothing, {"--weights", path("deep.pth")});
}

// No wrong folder starts a download.
TEST_F(VocDdpFailures, a_wrong_folder_for_the_data) {
  fs::create_directories(folder / "up/VOCdevkit/VOC2012/JPEGImages");
  fs::create_directories(folder / "home/letters");
  for (const auto& [data, words] :
       {std::pair<std::string, std::string>{"tpyo", "there is no such folder: create it"},
        {"home", "has other files (letters), but no VOCdevkit: give the folder that contains VOCdevkit, or "},
        {"up/VOCdevkit", "give the folder that contains VOCdevkit instead, "},
        {"up/VOCdevkit/VOC2012", "give the folder that contains VOCdevkit instead, "},
        {"up/VOCdevkit/VOC2012/JPEGImages", "give the folder that contains VOCdevkit instead, "}}) {
    const auto outcome = run(1, {"--data", path(data), "--model", "deeplabv3_resnet18"}, {});
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    testing::expect_parts(outcome.err, {"--data", path(data), words});
  }
  EXPECT_FALSE(fs::exists(folder / "tpyo"));
}

TEST_F(VocDdpFailures, archive_with_the_wrong_checksum) {
  testing::HttpServer server([](auto&) { return testing::HttpServer::answer("200 OK", "<html>please log in</html>"); });
  fs::create_directory(folder / "empty");
  for (const int processes : {1, 2}) {
    const auto outcome = run(processes, {"--data", path("empty"), "--model", "deeplabv3_resnet18"},
                             {{"http_proxy", server.url()}, {"no_proxy", "127.0.0.1"}});
    EXPECT_EQ(outcome.code, 1);
    for (const char* words :
         {"VOCtrainval_11-May-2012.tar", "its content has the MD5", "expected 6cd6e144f989b92b3379bac3b3de84fd"})
      EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
    EXPECT_TRUE(fs::is_empty(folder / "empty"));
  }
}

}  // namespace
}  // namespace tandem
