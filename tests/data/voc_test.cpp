#include <tandem/data/download/download.h>
#include <tandem/data/images/image_png.h>
#include <tandem/data/segmentation/segmentation_picture.h>
#include <tandem/data/segmentation/voc.h>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "support/arrays.h"
#include "support/few_threads.h"
#include "support/full_disk.h"
#include "support/http_server.h"
#include "support/temporary_folder.h"

namespace tandem::data {
namespace {

using namespace std::string_literals;
using testing::HttpServer;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;
namespace fs = std::filesystem;
using Damaged = SegmentationFiles::Damaged;

const fs::path sample = fs::path(TANDEM_SOURCE_DIR) / "tests/data/voc_sample";

// A copy of the sample data set that a test may change.
class Copy : public TemporaryFolder {
 public:
  Copy() { fs::copy(sample, path(), fs::copy_options::recursive); }
  fs::path devkit() const { return path() / "VOCdevkit/VOC2012"; }
  fs::path image(const std::string& name) const { return devkit() / "JPEGImages" / (name + ".jpg"); }
  fs::path mask(const std::string& name) const { return devkit() / "SegmentationClass" / (name + ".png"); }
  fs::path list(const std::string& name) const { return devkit() / "ImageSets/Segmentation" / (name + ".txt"); }
};

TEST(Voc, ReadsTheLists) {
  const VocSegmentation train(sample), val(sample, "2012", "val"), both(sample, "2012", "trainval");
  EXPECT_EQ(train.size(), 2);
  EXPECT_EQ(val.size(), 1);
  EXPECT_EQ(both.size(), 3);
  EXPECT_EQ(train.classes(), 21);
  EXPECT_EQ(VocSegmentation::class_names().size(), 21u);
  EXPECT_EQ(VocSegmentation::class_names()[20], "tvmonitor");
  EXPECT_EQ(both.pair(1).name, "scene_b");
  const Sample first = train.sample(0);
  EXPECT_EQ(first.input.shape(), (Shape{3, 37, 52}));
  EXPECT_EQ(first.input.dtype(), DType::u8);
  EXPECT_EQ(first.target.shape(), (Shape{37, 52}));
  EXPECT_EQ(first.target.dtype(), DType::u8);
  std::vector<bool> seen(256, false);
  for (const auto label : first.target.to_vector<std::int64_t>()) seen[static_cast<std::size_t>(label)] = true;
  EXPECT_TRUE(seen[0] && seen[8] && seen[15] && seen[255]);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 4);
  EXPECT_ERROR(train.sample(2), "sample 2 was requested, there are 2");
}

TEST(Voc, KnowsWhereEachYearLies) {
  const Copy copy;
  fs::create_directories(copy / "TrainVal/VOCdevkit");
  fs::copy(copy.devkit(), copy / "TrainVal/VOCdevkit/VOC2011", fs::copy_options::recursive);
  fs::copy(copy.devkit(), copy / "VOCdevkit/VOC2007", fs::copy_options::recursive);
  fs::rename(copy / "VOCdevkit/VOC2007/ImageSets/Segmentation/val.txt",
             copy / "VOCdevkit/VOC2007/ImageSets/Segmentation/test.txt");
  EXPECT_EQ(VocSegmentation(copy.path(), "2011").size(), 2);
  EXPECT_EQ(VocSegmentation(copy.path(), "2007").size(), 2);
  EXPECT_EQ(VocSegmentation(copy.path(), "2007", "test").size(), 1);
  EXPECT_EQ(VocSegmentation(copy.path(), "2007-test").size(), 1);
}

TEST(Voc, SaysWhatIsMissing) {
  const Copy copy;
  const auto open = [&](const std::string& set = "train") { VocSegmentation(copy.path(), "2012", set); };
  for (const std::string& year : VocSegmentation::years())
    if (year != "2012") EXPECT_ERROR(VocSegmentation(copy.path(), year), "there is no folder");
  EXPECT_ERROR(VocSegmentation(copy.path(), "2013"), "no year 2013", "expected 2007 to 2012");
  EXPECT_ERROR(VocSegmentation(copy.path(), "2011"), "there is no folder", "TrainVal/VOCdevkit/VOC2011",
               "unpack VOCtrainval_25-May-2011.tar in");
  EXPECT_ERROR(open("test"), "there is no list", "test.txt", "lists there: train, trainval, val");
  write_bytes(copy.list("train"), "\n \n");
  EXPECT_ERROR(open(), "train.txt is empty");
  write_bytes(copy.list("train"), "scene_a\r\nscene_x");
  EXPECT_ERROR(open(), "line 2 of", "names scene_x, but", "scene_x.jpg does not exist", "correct the line");
  write_bytes(copy.list("train"), "scene_a\r\n\nscene_b");
  EXPECT_EQ(VocSegmentation(copy.path()).size(), 2);
  fs::remove(copy.mask("scene_b"));
  EXPECT_ERROR(open(), "scene_b.png does not exist");
  fs::create_symlink(copy.mask("scene_b"), copy.mask("scene_b"));
  EXPECT_ERROR(open(), "cannot find out whether", "scene_b.png exists: Too many levels of symbolic links");
}

// Lists in the forms that editors, shells and other projects write.
TEST(Voc, ReadsListsOfManyForms) {
  const Copy copy;
  fs::create_directory(copy.devkit() / "SegmentationClassAug");
  fs::copy_file(copy.mask("scene_b"), copy.devkit() / "SegmentationClassAug/scene_b.png");
  const std::string here = copy.devkit().string();
  for (const std::string& text :
       {"scene_a\nscene_b\n"s, "\xef\xbb\xbfscene_a\r\nscene_b\r\n"s, "scene_a\rscene_b"s,
        "# my list\n\n  scene_a  # the first\n\t\nscene_b\n#scene_c\n"s,
        "/JPEGImages/scene_a.jpg /SegmentationClass/scene_a.png\n"
        "/JPEGImages/scene_b.jpg /SegmentationClassAug/scene_b.png\n"s,
        "JPEGImages/scene_a.jpg\tSegmentationClass/scene_a.png\r\nscene_b"s,
        here + "/JPEGImages/scene_a.jpg " + here + "/SegmentationClass/scene_a.png\nscene_b\n"}) {
    write_bytes(copy.list("train"), text);
    const VocSegmentation data(copy.path());
    ASSERT_EQ(data.size(), 2) << text;
    for (const int i : {0, 1}) {
      EXPECT_EQ(data.pair(i).name, i == 0 ? "scene_a" : "scene_b") << text;
      EXPECT_GT(data.sample(i).input.numel(), 0) << text;
    }
    EXPECT_EQ(data.pair(1).mask.parent_path().filename(),
              text.find("Aug") == std::string::npos ? "SegmentationClass" : "SegmentationClassAug");
  }
}

TEST(Voc, NamesTheLineOfAListThatItCannotRead) {
  const Copy copy;
  const auto expect = [&](const std::string& text, const std::vector<std::string>& words) {
    write_bytes(copy.list("train"), text);
    const auto error = testing::error_of([&] { VocSegmentation(copy.path(), "2012", "train"); });
    for (const auto& word : words) EXPECT_NE(error.find(word), std::string::npos) << error;
    EXPECT_NE(error.find(copy.list("train").string()), std::string::npos) << error;
    EXPECT_EQ(error.find("unpack"), std::string::npos) << error;
  };
  expect("\xff\xfes\0c\0\n\0"s, {"line 1", "UTF-16", "iconv -f UTF-16"});
  expect("\xfe\xff\0s\0c\0\n"s, {"line 1", "UTF-16"});
  expect("s\0c\0e\0n\0e\0_\0a\0"s, {"UTF-16"});  // without a byte order mark
  expect("\xef\xbb\xbfscene_a\r\n# note\r\nscene_b  1\r\n",
         {"line 3", "\"scene_b  1", "expected a name alone", "awk '{print $1}'"});
  expect("scene_a -1\n", {"line 1", "scene_a -1"});
  expect("scene_a scene_b\n", {"line 1"});
  expect("JPEGImages/scene_a.jpg SegmentationClass/scene_a.png 1\n", {"line 1", "picture and its mask"});
  write_bytes(copy.list("train"), "scene_a\n/JPEGImages/scene_b.jpg /Masks/scene_b.png\n");
  EXPECT_ERROR(VocSegmentation(copy.path()), "line 2 of", "Masks/scene_b.png does not exist");
  fs::remove(copy.list("train"));
  fs::create_directory(copy.list("train"));
  EXPECT_ERROR(VocSegmentation(copy.path()), "train.txt", "is not a regular file");
  fs::remove(copy.list("train"));
  ASSERT_EQ(::mkfifo(copy.list("train").c_str(), 0600), 0);  // nobody writes to it: reading would wait for ever
  EXPECT_ERROR(VocSegmentation(copy.path()), "train.txt", "is not a regular file");
}

// A folder that is too deep or has a different layout must not start a download.
TEST(Voc, KnowsItsFolderFromWithin) {
  HttpServer server([](auto&) { return HttpServer::answer("200 OK", "never asked for"); });
  const Copy copy;
  const std::string right = "instead, " + fs::canonical(copy.path()).string();
  fs::create_directory_symlink(copy.path() / "VOCdevkit", copy / "link");
  for (const char* below : {"VOCdevkit", "VOCdevkit/", "VOCdevkit/VOC2012", "VOCdevkit/VOC2012/JPEGImages",
                            "VOCdevkit/VOC2012/ImageSets/Segmentation", "VOCdevkit/none", "link", "link/VOC2012"}) {
    EXPECT_ERROR(check_voc_root(copy / below), (copy / below).string() + " is inside the data set", right);
    EXPECT_ERROR(download_voc(copy / below, "2012", "train", VocSource{{server.url()}, {}, {}}), right);
  }
  fs::create_directories(copy / "TrainVal/VOCdevkit/VOC2011/JPEGImages");
  EXPECT_ERROR(check_voc_root(copy / "TrainVal/VOCdevkit/VOC2011", "2011"), "TrainVal " + right);
  const TemporaryFolder other;
  fs::create_directories(other / "VOC2012/JPEGImages");
  EXPECT_ERROR(check_voc_root(other.path()), "in another layout: expected it in VOCdevkit/VOC2012 below");
  EXPECT_ERROR(check_voc_root(other / "VOC2012"), "in another layout");
  fs::create_directory(other / "new");
  check_voc_root(other / "new");
  check_voc_root(other / "none");
  check_voc_root(copy.path());
  EXPECT_TRUE(server.requests().empty());
}

TEST(Voc, NamesWhatIsDamaged) {
  const Copy copy;
  const VocSegmentation data(copy.path(), "2012", "trainval");
  const std::string jpeg = read_bytes(copy.image("scene_a"));
  write_bytes(copy.image("scene_a"), jpeg.substr(0, jpeg.size() / 2));
  EXPECT_ERROR(data.sample(0), "scene_a.jpg cannot be decoded");
  const std::string png = read_bytes(copy.mask("scene_b"));
  write_bytes(copy.mask("scene_b"), png.substr(0, png.size() / 2));
  EXPECT_ERROR(data.sample(1), "scene_b.png cannot be decoded");
  fs::copy_file(copy.mask("scene_a"), copy.mask("scene_b"), fs::copy_options::overwrite_existing);
  EXPECT_ERROR(data.sample(1), "scene_b.jpg is 60 high and 41 wide", "scene_b.png is 37 high and 52 wide",
               "must be equal");
  // Class 20 of scene_c becomes 21.
  Array mask = MaskFile(copy.mask("scene_c")).read();
  for (std::int64_t i = 0; i < mask.numel(); ++i)
    if (mask.data<std::uint8_t>()[i] == 20) mask.data<std::uint8_t>()[i] = 21;
  write_png(copy.mask("scene_c"), mask, voc_colours());
  EXPECT_ERROR(data.sample(2), "scene_c.png holds the label 21, expected 0 to 20 or 255");
}

TEST(Voc, LeavesOutWhatIsDamaged) {
  const Copy copy;
  const std::string jpeg = read_bytes(copy.image("scene_b"));
  write_bytes(copy.image("scene_b"), jpeg.substr(0, jpeg.size() - 200));
  const VocSegmentation data(copy.path(), "2012", "trainval", Damaged::skip);
  EXPECT_EQ(data.size(), 2);
  EXPECT_EQ(data.pair(0).name, "scene_a");
  EXPECT_EQ(data.pair(1).name, "scene_c");
  ASSERT_EQ(data.skipped().size(), 1u);
  EXPECT_EQ(data.skipped()[0].name, "scene_b");
  EXPECT_NE(data.skipped()[0].reason.find("scene_b.jpg cannot be decoded"), std::string::npos);
  EXPECT_TRUE(VocSegmentation(sample, "2012", "trainval", Damaged::skip).skipped().empty());
  for (const char* name : {"scene_a", "scene_c"}) write_bytes(copy.mask(name), "nothing");
  EXPECT_ERROR(VocSegmentation(copy.path(), "2012", "trainval", Damaged::skip), "all 3 samples are damaged");
}

// Without new threads, the existing ones check the samples.
TEST(VocDeathTest, FindsWhatIsDamagedWithoutMoreThreads) {
  const auto check = [] {
    const Copy copy;
    write_bytes(copy.mask("scene_b"), "nothing");
    testing::allow_threads(0);
    const VocSegmentation data(copy.path(), "2012", "trainval", Damaged::skip);
    _exit(data.skipped().size() == 1 ? 3 : 4);
  };
  EXPECT_EXIT(check(), ::testing::ExitedWithCode(3), "");
}

// A small imitation of an official archive, made from the VOCdevkit in a folder.
struct MadeArchive {
  TemporaryFolder folder;
  std::string bytes, md5;
  explicit MadeArchive(const fs::path& from = sample) {
    const std::string tar = (folder / "made.tar").string();
    TANDEM_CHECK(std::system(("tar cf '" + tar + "' -C '" + from.string() + "' VOCdevkit").c_str()) == 0, "tar failed");
    bytes = read_bytes(tar);
    md5 = md5_of(tar);
  }
};

TEST(Voc, IsDownloadedAndUnpackedOnce) {
  const MadeArchive made;
  const TemporaryFolder folder;
  HttpServer server([&](const std::string& request) { return HttpServer::serve_ranges(request, made.bytes); });
  std::vector<std::string> lines;
  const VocSource source{{server.url()}, made.md5, [&](const std::string& line) { lines.push_back(line); }};
  fs::create_directory(folder / "data");
  // An earlier call was interrupted. The bytes that it has are not requested again.
  write_bytes(folder / "data/VOCtrainval_11-May-2012.tar.part", made.bytes.substr(0, 1000));
  for (int times = 0; times < 2; ++times) download_voc(folder / "data", "2012", "train", source);
  // Before the download starts, a line says how large it is, and how to avoid it.
  testing::expect_parts(lines.at(0), {(folder / "data").string(), server.url(), "2 GB", "--data FOLDER"});
  ASSERT_EQ(server.requests().size(), 1u);
  EXPECT_NE(server.requests()[0].find("GET /voc2012/VOCtrainval_11-May-2012.tar"), std::string::npos);
  EXPECT_NE(server.requests()[0].find("Range: bytes=1000-"), std::string::npos);
  EXPECT_EQ(VocSegmentation(folder / "data").size(), 2);
  // A missing file is unpacked again, without a request to the server.
  fs::remove(folder / "data/VOCdevkit/VOC2012/SegmentationClass/scene_a.png");
  download_voc(folder / "data", "2012", "train", source);
  EXPECT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(VocSegmentation(folder / "data").size(), 2);
  // The archive lacks the requested image set.
  EXPECT_ERROR(download_voc(folder / "data", "2012", "test", source), "does not contain", "test.txt");
  EXPECT_THROW(download_voc(folder / "other", "2012", "train", VocSource{{server.url()}, std::string(32, '0'), {}}),
               DownloadError);
  EXPECT_FALSE(fs::exists(folder / "other/VOCdevkit"));
}

TEST(Voc, DownloadsTheTestSetOf2007IntoTheFolderOfTheOtherArchive) {
  const TemporaryFolder folder;
  const TemporaryFolder release;
  const fs::path year = release / "VOCdevkit/VOC2007";
  fs::create_directory(release / "VOCdevkit");
  fs::copy(sample / "VOCdevkit/VOC2012", year, fs::copy_options::recursive);
  fs::rename(year / "ImageSets/Segmentation/train.txt", year / "ImageSets/Segmentation/test.txt");
  const MadeArchive made(release.path());
  HttpServer server([&](const std::string& request) { return HttpServer::serve_ranges(request, made.bytes); });
  const VocSource source{{server.url()}, made.md5, {}};
  fs::create_directories(folder / "VOCdevkit/VOC2007/ImageSets/Segmentation");
  download_voc(folder.path(), "2007", "test", source);  // a user's own folder is left alone
  EXPECT_TRUE(server.requests().empty());
  write_bytes(folder / "VOCtrainval_06-Nov-2007.tar", "what a download of the other set has left");
  download_voc(folder.path(), "2007", "test", source);
  EXPECT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(VocSegmentation(folder.path(), "2007", "test").size(), 2);
}

int half_written_in(const fs::path& folder) {
  int count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".part" || entry.path().extension() == ".tmp") ++count;
  return count;
}

TEST(Voc, GoesOnWhenADiskThatWasFullHasSpace) {
  const MadeArchive made;
  const TemporaryFolder folder;
  HttpServer server([&](const std::string& request) { return HttpServer::serve_ranges(request, made.bytes); });
  const VocSource source{{server.url()}, made.md5, {}};
  const fs::path archive = folder / "VOCtrainval_11-May-2012.tar";
  {  // The disk becomes full during the download. The bytes that have arrived are kept under another name.
    const testing::FullDisk full(made.bytes.size() / 2);
    EXPECT_ERROR(download_voc(folder.path(), "2012", "train", source), archive.string() + ".part", "File too large",
                 "free space");
  }
  EXPECT_FALSE(fs::exists(archive));
  // The disk becomes full during unpacking. The archive and the lists are complete, but not the larger pictures.
  write_bytes(archive, made.bytes);
  fs::remove(archive.string() + ".part");
  {
    const testing::FullDisk full(600);
    EXPECT_ERROR(download_voc(folder.path(), "2012", "train", source), archive.string(), "VOCdevkit/VOC2012/",
                 "File too large", "free space");
  }
  EXPECT_EQ(half_written_in(folder.path()), 0);
  download_voc(folder.path(), "2012", "train", source);
  EXPECT_EQ(VocSegmentation(folder.path()).size(), 2);
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(Voc, IsUnpackedAgainWhereThePowerWasLostMeanwhile) {
  const MadeArchive made;
  const TemporaryFolder folder;
  HttpServer server([&](const std::string& request) { return HttpServer::serve_ranges(request, made.bytes); });
  const VocSource source{{server.url()}, made.md5, {}};
  download_voc(folder.path(), "2012", "train", source);
  const fs::path picture = folder / "VOCdevkit/VOC2012/JPEGImages/scene_a.jpg";
  const std::string before = read_bytes(picture);
  // Every file exists, but not with all of its bytes.
  const auto lose = [&] { write_bytes(picture, ""); };
  const fs::path mark = folder / "VOCtrainval_11-May-2012.tar.unpacking";
  EXPECT_FALSE(fs::exists(mark));
  lose();
  write_bytes(mark, "");
  download_voc(folder.path(), "2012", "train", source);
  EXPECT_EQ(read_bytes(picture), before);
  EXPECT_FALSE(fs::exists(mark));
  // The archive is missing as well, so it is downloaded again.
  lose();
  write_bytes(mark, "");
  fs::remove(folder / "VOCtrainval_11-May-2012.tar");
  download_voc(folder.path(), "2012", "train", source);
  EXPECT_EQ(read_bytes(picture), before);
  EXPECT_EQ(server.requests().size(), 2u);
  // Without the mark, the file is the user's own.
  lose();
  download_voc(folder.path(), "2012", "train", source);
  EXPECT_EQ(read_bytes(picture), "");
}

TEST(Voc, RefusesAnArchiveThatIsCut) {
  const MadeArchive made;
  const TemporaryFolder folder;
  const fs::path archive = folder / "VOCtrainval_11-May-2012.tar";
  write_bytes(archive, made.bytes.substr(0, made.bytes.size() / 2));
  EXPECT_ERROR(download_voc(folder.path(), "2012", "train", VocSource{{}, md5_of(archive), {}}), archive.string());
  EXPECT_EQ(half_written_in(folder.path()), 0);
  EXPECT_ERROR(VocSegmentation(folder.path()), "VOC2012");
}

TEST(Voc, RealPictures) {
  const char* root = std::getenv("TANDEM_VOC");
  if (root == nullptr)
    GTEST_SKIP() << "NOT RUN: TANDEM_VOC does not name a folder with VOCdevkit/VOC2012, to read real pictures";
  for (const char* set : {"train", "val"}) {
    const VocSegmentation data(root, "2012", set, Damaged::skip);
    EXPECT_GT(data.size(), 0);
    for (const auto& [name, reason] : data.skipped()) ADD_FAILURE() << name << ": " << reason;
  }
}

}  // namespace
}  // namespace tandem::data
