// Downloads and archives on disks that fail and lose power. No incomplete file may count as complete.
#include <tandem/data/download/archive.h>
#include <tandem/data/download/download.h>

#include <gtest/gtest.h>
#include <support/process.h>
#include <unistd.h>

#include <iostream>

#include "faults.h"
#include "support/http_server.h"

namespace tandem::data {
namespace {

using testing::FileCall;
using testing::HttpServer;
using testing::LossyDisk;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::Watching;
using testing::write_bytes;
using namespace std::chrono_literals;

const DownloadOptions quick{.connect_timeout = 2s, .stall_timeout = 1s, .lock_timeout = 1s};
// The program removes a file of this name in the watched folder to mark a promise: everything before it has returned.
const char* const mark = "promised";

std::string make_content() {
  std::string content(60'000, '\0');
  std::uint32_t state = 1;
  for (auto& byte : content) byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return content;
}

// Loses the power after each call of the journal from `first_call` on. Calls check(folder, is_promised) for each new
// state of the disk. Returns the number of states.
template <class Check>
std::size_t lose_power(const std::filesystem::path& journal, long first_call, std::map<std::string, bool>& known,
                       Check&& check) {
  LossyDisk disk;
  bool is_promised = false;
  std::size_t points = 0;
  long number = 0;
  for (const auto& call : testing::read_journal(journal)) {
    is_promised |= call.call == FileCall::remove && call.name == mark;
    disk.apply(call);
    if (++number < first_call) continue;
    disk.for_each_state([&](const LossyDisk::Contents& contents) {
      ++points;
      const bool is_new = known.emplace(testing::key_of(contents) + (is_promised ? "!" : ""), true).second;
      if (!is_new || ::testing::Test::HasFailure()) return;
      const TemporaryFolder rebuilt;
      testing::write_contents(contents, rebuilt.path());
      SCOPED_TRACE("power lost after call " + std::to_string(number));
      check(rebuilt.path(), is_promised);
    });
  }
  return points;
}

// Runs `step` in a new folder, once without faults and once for each way in which each call can fail. After an error,
// `look` examines the folder and the step is repeated. Then the power is lost.
template <class Step, class Look, class Check>
void try_faults(const std::string& what, const Step& step, const Look& look, const Check& check) {
  long calls = 0;
  std::size_t points = 0;
  int faults = 0, errors = 0;
  std::map<std::string, bool> known;
  const auto run = [&](long call, const testing::Way& way) {
    SCOPED_TRACE(testing::text_of(call, way));
    const TemporaryFolder folder, journals;
    {
      const Watching watching(folder.path(), journals / "journal");
      faulty_files_fail(call, way.error, way.lasts);
      const auto look_at_it = [&](const std::string&) {
        ++errors;
        look(folder.path());
      };
      ASSERT_NO_THROW(testing::do_twice([&] { step(folder.path()); }, look_at_it));
      ::unlink((folder / mark).c_str());
      if (call == 0) calls = faulty_files_calls();
    }
    points += lose_power(journals / "journal", call, known, check);
  };
  run(0, {0, false});
  for (const auto& way : testing::all_ways) {
    for (long call = 1; call <= calls && !::testing::Test::HasFailure(); ++call, ++faults) run(call, way);
  }
  std::cout << what << ": failed calls " << faults << ", errors " << errors << ", points at which power was lost "
            << points << " (" << known.size() << " different states), losses "
            << (::testing::Test::HasFailure() ? "some" : "0") << "\n";
  EXPECT_GT(faults, 50);
  EXPECT_GT(errors, 20);
  EXPECT_GT(points, 500u);
}

TEST(DownloadFaults, only_a_right_file_counts_as_complete) {
  const std::string content = make_content();
  const TemporaryFolder other;
  write_bytes(other / "content", content);
  const std::string md5 = md5_of(other / "content");
  HttpServer server([&](const std::string& request) { return HttpServer::serve_ranges(request, content); });
  const auto fetch = [&](const std::filesystem::path& folder) {
    download({server.url()}, folder / "cache" / "file", md5, quick);
    EXPECT_TRUE(read_bytes(folder / "cache" / "file") == content);
  };
  const auto is_right_or_missing = [&](const std::filesystem::path& folder) {
    const auto path = folder / "cache" / "file";
    if (std::filesystem::exists(path)) {
      EXPECT_TRUE(read_bytes(path) == content);
    }
  };
  bool had_error = false;
  const auto look = [&](const std::filesystem::path& folder) {
    had_error = true;
    is_right_or_missing(folder);
  };
  try_faults("download", fetch, look, [&](const std::filesystem::path& folder, bool is_promised) {
    is_right_or_missing(folder);
    // After an error, the name may be lost. A file that is missing is downloaded again.
    if (is_promised && !had_error) {
      EXPECT_TRUE(std::filesystem::exists(folder / "cache" / "file"));
    }
    ASSERT_NO_THROW(fetch(folder));
  });
}

TEST(DownloadFaults, only_a_whole_archive_counts_as_unpacked) {
  const TemporaryFolder other;
  const std::map<std::string, std::string> files = {
      {"top/a", std::string(3000, 'a')}, {"top/b", std::string(100, 'b')}, {"top/deep/c", "c"}};
  std::filesystem::create_directories(other / "top/deep");
  for (const auto& [name, bytes] : files) write_bytes(other / name, bytes);
  const auto archive = other / "some.tar";
  ASSERT_EQ(testing::run_process({"tar", "-C", other.path().string(), "-cf", archive.string(), "top"}).code, 0);
  const auto is_whole = [&](const std::filesystem::path& folder) {
    for (const auto& [name, bytes] : files)
      if (!std::filesystem::exists(folder / name) || read_bytes(folder / name) != bytes) return false;
    return true;
  };
  const auto unpack = [&](const std::filesystem::path& folder) {
    extract_archive(archive, folder / "data");
    EXPECT_TRUE(is_whole(folder / "data"));
    EXPECT_FALSE(is_half_unpacked(archive, folder / "data"));
  };
  // Without a mark, a program uses the files that exist.
  const auto is_marked_or_whole = [&](const std::filesystem::path& folder) {
    const bool has_some = std::filesystem::exists(folder / "data" / "top");
    EXPECT_TRUE(!has_some || is_half_unpacked(archive, folder / "data") || is_whole(folder / "data"));
  };
  try_faults("archive", unpack, is_marked_or_whole, [&](const std::filesystem::path& folder, bool is_promised) {
    is_marked_or_whole(folder);
    if (is_promised) {
      EXPECT_TRUE(is_whole(folder / "data"));
    }
    ASSERT_NO_THROW(unpack(folder));
  });
}

}  // namespace
}  // namespace tandem::data
