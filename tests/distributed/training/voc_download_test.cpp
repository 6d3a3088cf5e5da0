// The first process of a host downloads the data for all. If it fails, the other processes end too.
#include <tandem/data/download/download.h>
#include <tandem/data/segmentation/voc.h>
#include <tandem/distributed/job/together.h>

#include <gtest/gtest.h>
#include <support/full_disk.h>
#include <support/ranks.h>
#include <support/temporary_folder.h>

#include <cstdlib>
#include <filesystem>

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;

TEST(VocDownload, FullDiskEndsAllRanksAndASecondTryGoesOn) {
  const testing::TemporaryFolder folder;
  const fs::path archive = folder / "VOCtrainval_11-May-2012.tar";
  const std::string sample = TANDEM_SOURCE_DIR "/tests/data/voc_sample";
  ASSERT_EQ(std::system(("tar cf '" + archive.string() + "' -C '" + sample + "' VOCdevkit").c_str()), 0);
  const data::VocSource source{{}, data::md5_of(archive), {}};
  const auto unpack = [&](const testing::Group& group, bool is_full) {
    once_per_host(*group, [&]() -> std::string {
      std::optional<testing::FullDisk> full;
      if (is_full) full.emplace(600);
      data::download_voc(folder.path(), "2012", "train", source);
      return "";
    });
  };
  const auto ends = testing::run_ranks_catching(2, [&](testing::Group group) { unpack(group, true); });
  for (const auto& end : ends) {
    ASSERT_TRUE(end);
    EXPECT_ERROR(std::rethrow_exception(end), archive.string(), "File too large", "free space");
  }
  EXPECT_THROW(std::rethrow_exception(ends[1]), PeerFailure);
  for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
    EXPECT_NE(entry.path().extension(), ".part") << entry.path();
  for (const auto& end : testing::run_ranks_catching(2, [&](testing::Group group) { unpack(group, false); }))
    EXPECT_FALSE(end);
  EXPECT_EQ(data::VocSegmentation(folder.path()).size(), 2);
}

}  // namespace
}  // namespace tandem::distributed
