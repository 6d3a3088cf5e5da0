// FileStore on a disk that fails. Acknowledged values are never lost, for any process that reads the file.
#include <tandem/distributed/store/file_store.h>

#include <gtest/gtest.h>
#include <support/temporary_folder.h>

#include <iostream>
#include <memory>

#include "faults.h"

namespace tandem::distributed {
namespace {

using testing::TemporaryFolder;
using testing::Watching;
using namespace std::chrono_literals;

using Table = std::map<std::string, std::string>;

// A reader may have to open a rewritten log, which may fail as well.
Table read_all(FileStore& store) {
  Table table;
  const auto read = [&] {
    for (const std::string key : {"a", "b", "count"}) {
      if (store.check({key})) table[key] = store.get(key);
    }
  };
  testing::do_twice(read, [](const std::string&) {});
  return table;
}

// Uses the stores of two processes. Returns the number of calls that failed with an error.
int use_stores(const std::string& path, std::int64_t longest_log) {
  const FileStore::Options options{.path = path, .timeout = 1s, .longest_log = longest_log};
  int errors = 0;
  Table expected;
  std::unique_ptr<FileStore> writer, reader;
  const auto look = [&](const std::string&) {
    ++errors;
    FileStore fresh(options);
    EXPECT_EQ(read_all(fresh), expected);
    if (writer) {
      EXPECT_EQ(read_all(*writer), expected);
    }
    if (reader) {
      EXPECT_EQ(read_all(*reader), expected);
    }
  };
  testing::do_twice([&] { writer = std::make_unique<FileStore>(options); }, look);
  testing::do_twice([&] { reader = std::make_unique<FileStore>(options); }, look);
  const auto change = [&](auto&& step, const std::string& key, const std::string& value) {
    testing::do_twice(step, look);
    if (value.empty()) expected.erase(key);
    else expected[key] = value;
    EXPECT_EQ(read_all(*reader), expected);
  };
  const std::string large(5000, 'x');
  change([&] { writer->set("a", "1"); }, "a", "1");
  change([&] { writer->add("count", 3); }, "count", "3");
  change([&] { reader->add("count", 4); }, "count", "7");
  change([&] { writer->set("b", large); }, "b", large);
  change([&] { writer->append("b", "tail"); }, "b", large + "tail");
  change([&] { writer->compare_set("a", "1", "2"); }, "a", "2");
  change([&] { writer->delete_key("b"); }, "b", "");
  change([&] { writer->add("count", 1); }, "count", "8");
  change([&] { writer->set("b", large); }, "b", large);
  change([&] { reader->add("count", 1); }, "count", "9");
  change([&] { writer->add("count", 1); }, "count", "10");
  return errors;
}

void expect_no_loss(std::int64_t longest_log) {
  long calls = 0;
  {
    const TemporaryFolder folder;
    const Watching watching(folder.path());
    EXPECT_EQ(use_stores((folder / "store").string(), longest_log), 0);
    calls = faulty_files_calls();
  }
  int faults = 0, errors = 0;
  for (const auto& way : testing::all_ways) {
    for (long call = 1; call <= calls; ++call) {
      SCOPED_TRACE(testing::text_of(call, way));
      const TemporaryFolder folder;
      const Watching watching(folder.path());
      faulty_files_fail(call, way.error, way.lasts);
      ASSERT_NO_THROW(errors += use_stores((folder / "store").string(), longest_log));
      ++faults;
      if (::testing::Test::HasFailure()) return;
    }
  }
  std::cout << "FileStore: failed calls " << faults << ", errors " << errors << ", losses 0\n";
  EXPECT_GT(faults, 90);
  EXPECT_GT(errors, 50);
}

TEST(FileStoreFaults, what_was_acknowledged_stays) { expect_no_loss(1 << 20); }

// The second write of the large value makes the store rewrite its log.
TEST(FileStoreFaults, what_was_acknowledged_stays_while_the_log_is_written_anew) { expect_no_loss(12000); }

}  // namespace
}  // namespace tandem::distributed
