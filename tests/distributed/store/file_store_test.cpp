#include <tandem/core/base/check.h>
#include <tandem/distributed/store/file_store.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <support/process.h>
#include <support/temporary_folder.h>
#include <support/torch_python.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace tandem::distributed {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using testing::error_of;
using testing::expect_parts;
using testing::read_bytes;
using testing::write_bytes;
using namespace std::string_literals;

class FileStoreTest : public ::testing::Test {
 protected:
  FileStore::Options options(Store::Timeout timeout = 10s) const { return {path_, timeout}; }
  // The options of a store that rewrites its log when it has 1,000 bytes.
  FileStore::Options short_options() const { return {.path = path_, .timeout = 10s, .longest_log = 1000}; }

  const testing::TemporaryFolder folder_;
  const std::string path_ = (folder_ / "store").string();
};

TEST_F(FileStoreTest, KeepsValuesForAll) {
  FileStore a(options()), b(options());
  const std::string bytes("a\0b\n\xff", 5);
  a.set("key", bytes);
  EXPECT_EQ(b.get("key"), bytes);
  a.set("key", "");
  EXPECT_EQ(b.get("key"), "");
  b.append("log", "one,");
  a.append("log", "two");
  EXPECT_EQ(b.get("log"), "one,two");
  EXPECT_EQ(a.add("n", 5), 5);
  EXPECT_EQ(b.add("n", -12), -7);
  EXPECT_EQ(a.get("n"), "-7");
  EXPECT_TRUE(a.check({"key", "n"}));
  EXPECT_FALSE(a.check({"key", "other"}));
  EXPECT_TRUE(b.delete_key("key"));
  EXPECT_FALSE(a.delete_key("key"));
  EXPECT_FALSE(a.check({"key"}));
  EXPECT_THROW(a.add("log", 1), Error);
  EXPECT_EQ(FileStore(options()).get("log"), "one,two");
}

TEST_F(FileStoreTest, ComparesAndSets) {
  FileStore a(options()), b(options());
  EXPECT_EQ(a.compare_set("k", "old", "new"), "old");
  EXPECT_FALSE(b.check({"k"}));
  EXPECT_EQ(a.compare_set("k", "", "one"), "one");
  EXPECT_EQ(b.compare_set("k", "wrong", "two"), "one");
  EXPECT_EQ(b.compare_set("k", "one", "two"), "two");
  EXPECT_EQ(a.get("k"), "two");
}

TEST_F(FileStoreTest, WaitsUntilItsTimeoutAndNamesTheKeys) {
  FileStore reader(options(50ms)), writer(options());
  expect_parts(error_of([&] { reader.wait({"absent"}); }), {"no process set \"absent\""});
  std::thread thread([&] { writer.set("late", "value"); });
  EXPECT_NO_THROW(reader.wait({"late"}, 10s));
  thread.join();
  EXPECT_EQ(reader.get("late"), "value");
}

TEST_F(FileStoreTest, ManyWritersLoseNothing) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      FileStore store(options());
      for (int j = 0; j < 50; ++j) store.add("sum", 1);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(FileStore(options()).get("sum"), "400");
}

TEST_F(FileStoreTest, TheLayoutIsPyTorchs) {
  FileStore store(options());
  store.set("k", "v");
  store.add("n", 3);
  store.delete_key("k");
  EXPECT_EQ(read_bytes(path_), "\x02\0\0\0/k\x01\0\0\0v"s + "\x02\0\0\0/n\x01\0\0\0"s + "3" + "\x03\0\0\0-/k\0\0\0\0"s);
}

// The file is cut at every place at which a process can die while it writes.
TEST_F(FileStoreTest, AHalfWrittenEndIsCutOff) {
  {
    FileStore store(options());
    store.set("first", "1");
    store.set("second", "22");
  }
  const auto whole = read_bytes(path_);
  const auto first = whole.find("\x07\0\0\0/second"s);
  for (auto size = first; size < whole.size(); ++size) {
    write_bytes(path_, whole.substr(0, size));
    FileStore reader(options()), writer(options());
    EXPECT_EQ(reader.get("first"), "1");
    EXPECT_FALSE(reader.check({"second"}));
    writer.set("third", "3");
    EXPECT_EQ(reader.get("third"), "3");
    EXPECT_FALSE(FileStore(options()).check({"second"}));
  }
}

// Simulates a job whose ranks wait for each other for days, and write their progress twice a second.
TEST_F(FileStoreTest, ALogDoesNotGrowWithoutEnd) {
  FileStore writer(short_options()), reader(options());
  writer.set("kept", "from the beginning");
  writer.set("deleted", "");
  writer.delete_key("deleted");
  for (int i = 0; i < 1000; ++i) writer.set("progress", std::to_string(i));
  EXPECT_LT(std::filesystem::file_size(path_), 4000u);
  EXPECT_EQ(reader.get("progress"), "999");
  // A store that has followed one log finds the later ones too, and other stores find its records.
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 300; ++i) writer.add("count", 1);
    EXPECT_EQ(reader.add("count", 1), 301 * (round + 1));
    EXPECT_EQ(writer.get("count"), reader.get("count"));
  }
  FileStore late(options());
  for (FileStore* store : {&writer, &reader, &late}) {
    EXPECT_EQ(store->get("kept"), "from the beginning");
    EXPECT_FALSE(store->check({"deleted"}));
    EXPECT_EQ(store->get("count"), "903");
  }
  EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms(0600));
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    files.push_back(entry.path().filename());
  EXPECT_EQ(files, std::vector<std::string>{"store"});
}

TEST_F(FileStoreTest, ManyWritersLoseNothingWhileTheLogIsWrittenAnew) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      FileStore store(short_options());
      for (int j = 0; j < 200; ++j) {
        store.add("sum", 1);
        store.append("of " + std::to_string(i), "x");
      }
    });
  }
  for (auto& thread : threads) thread.join();
  FileStore store(options());
  EXPECT_EQ(store.get("sum"), "1600");
  for (int i = 0; i < 8; ++i) EXPECT_EQ(store.get("of " + std::to_string(i)), std::string(200, 'x'));
}

// A new job's file has the same name. It is not the log that replaced this job's log.
TEST_F(FileStoreTest, WhoIsLeftOfAJobDoesNotFollowIntoAnother) {
  FileStore left(options());
  {
    auto removing = short_options();
    removing.removes_file = true;
    FileStore writer(removing);
    for (int i = 0; i < 200; ++i) writer.set("key", "of the first job");
  }
  FileStore other(short_options());
  for (int i = 0; i < 200; ++i) other.set("key", "of the second job");
  left.set("key", "of who is left");
  EXPECT_EQ(left.get("key"), "of who is left");
  EXPECT_EQ(other.get("key"), "of the second job");
}

// Simulates a process that died after it marked the end of the old log, but before it named the new one.
TEST_F(FileStoreTest, AMarkWithoutANewLogIsNoHindrance) {
  FileStore store(short_options());
  for (int i = 0; i < 200; ++i) store.set("key", std::to_string(i));
  const auto log = read_bytes(path_);
  ASSERT_TRUE(log.starts_with("\x0d\0\0\0-tandem/moved"s)) << log.substr(0, 20);
  std::ofstream(path_, std::ios::binary | std::ios::app) << log.substr(0, log.find("\x04\0\0\0/key"s));
  FileStore reader(options());
  EXPECT_EQ(reader.get("key"), store.get("key"));
  reader.set("other", "1");
  EXPECT_EQ(store.get("other"), "1");
}

// The processes of PyTorch's store count how many of them have the file open.
TEST_F(FileStoreTest, WithPythonProcessesTheLogStaysAsItIs) {
  write_bytes(path_,
              "\x09\0\0\0refcount/\x01\0\0\0"
              "1"s);
  std::filesystem::permissions(path_, std::filesystem::perms(0600));
  FileStore store(short_options());
  for (int i = 0; i < 200; ++i) store.set("key", std::to_string(i));
  EXPECT_GT(std::filesystem::file_size(path_), 2000u);
  EXPECT_TRUE(read_bytes(path_).starts_with("\x09\0\0\0refcount/"s));
}

TEST_F(FileStoreTest, ReadsALogOfSeveralPieces) {
  const std::string large(std::size_t{8} << 20, 'x');
  FileStore writer(options());
  for (int i = 0; i < 9; ++i) writer.set("key", std::to_string(i) + large.substr(1));
  writer.set("last", "1");
  FileStore reader(options());
  EXPECT_EQ(reader.get("last"), "1");
  EXPECT_EQ(reader.get("key").front(), '8');
}

TEST_F(FileStoreTest, AFileLargerThanAnyMemoryIsAnError) {
  FileStore store(options());
  store.set("key", "value");
  std::filesystem::resize_file(path_, std::uintmax_t{1} << 42);
  expect_parts(error_of([&] { store.get("key"); }), {"does not contain a store"});
  expect_parts(error_of([&] { FileStore other(options()); }), {"does not contain a store"});
}

TEST_F(FileStoreTest, AnotherKindOfFileIsLeftAlone) {
  for (const auto& bytes :
       {"name,price\napple,1\n"s, "\x02\0\0\0ab\0\0\0\0"s, std::string(1000, '\0'), "\x7f"s + "ELF\x02\x01\x01"s}) {
    write_bytes(path_, bytes);
    ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
    expect_parts(error_of([&] { FileStore store(options()); }), {"does not contain a store"});
    EXPECT_EQ(read_bytes(path_), bytes);
    EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms(0644));
  }
  expect_parts(error_of([&] { FileStore store({folder_.path().string(), 1s}); }), {"cannot open"});
  expect_parts(error_of([&] { FileStore store({(folder_ / "none/store").string(), 1s}); }), {"No such file"});
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0);
  return status.st_mode & 0777;
}

TEST_F(FileStoreTest, BelongsToItsUserAlone) {
  const mode_t before = umask(0);
  { FileStore store(options()); }
  umask(before);
  EXPECT_EQ(mode_of(path_), 0600u);
  // PyTorch creates the file with this mode.
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  FileStore(options()).set("k", "v");
  EXPECT_EQ(mode_of(path_), 0600u);
  for (const mode_t mode : {0620u, 0602u, 0666u}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    expect_parts(error_of([&] { FileStore store(options()); }), {path_, "other users may write", "chmod 600"});
    EXPECT_EQ(mode_of(path_), mode);
  }
}

TEST_F(FileStoreTest, RefusesTheFileOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "NOT RUN: only root can give a file to another user";
  write_bytes(path_, "");
  ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  ASSERT_EQ(chown(path_.c_str(), 65534, 65534), 0);
  expect_parts(error_of([&] { FileStore store(options()); }), {path_, "belongs to the user 65534"});
  EXPECT_EQ(read_bytes(path_), "");
}

TEST_F(FileStoreTest, FollowsNoLinkAndWaitsForNoPipe) {
  const auto target = (folder_ / "precious").string();
  std::filesystem::create_symlink(target, path_);
  expect_parts(error_of([&] { FileStore store(options()); }), {path_, "is a symbolic link"});
  EXPECT_FALSE(std::filesystem::exists(target));
  write_bytes(target, "");
  expect_parts(error_of([&] { FileStore store(options()); }), {path_, "is a symbolic link"});
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  expect_parts(error_of([&] { FileStore store(options()); }), {"is not a regular file"});
}

TEST_F(FileStoreTest, AProcessThatKeepsTheLockIsAnErrorInTime) {
  FileStore store(options(100ms));
  const FileDescriptor other(open(path_.c_str(), O_RDWR));
  ASSERT_EQ(flock(other.get(), LOCK_EX), 0);
  const auto start = steady_clock::now();
  expect_parts(error_of([&] { store.set("k", "v"); }),
               {"process " + std::to_string(getpid()) + " (test_distribute) of user ", "locked"});
  EXPECT_LT(steady_clock::now() - start, 5s);
  flock(other.get(), LOCK_UN);
  store.set("k", "v");
}

TEST_F(FileStoreTest, RefusesWhatIsTooLarge) {
  FileStore store(options());
  expect_parts(error_of([&] { store.set("k", std::string((8u << 20) + 1, 'x')); }), {"8388609 bytes"});
  expect_parts(error_of([&] { store.set(std::string(8192, 'k'), ""); }), {"8191"});
  store.set("k", "small");
  EXPECT_EQ(FileStore(options()).get("k"), "small");
}

TEST_F(FileStoreTest, RemovesTheFileIfToldTo) {
  { FileStore store({path_, 1s, true}); }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(FileStoreTest, PythonJoins) {
  TANDEM_NEEDS_TORCH();
  FileStore store(options(60s));
  store.set("ours", "hello");
  std::thread answer([&] { store.set("answer", store.get("theirs")); });
  const auto script = R"(
import sys, torch.distributed as dist
store = dist.FileStore(sys.argv[1], 3)
assert store.get('ours') == b'hello'
store.set('theirs', 'good day')
assert store.get('answer') == b'good day'
assert store.add('n', 4) == 4
assert store.delete_key('ours')
store.compare_set('c', '', 'x')
)";
  const auto outcome = testing::run_process({"/usr/bin/env", testing::torch_python(), "-c", script, path_});
  answer.join();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(store.add("n", 1), 5);
  EXPECT_FALSE(store.check({"ours"}));
  EXPECT_EQ(store.get("c"), "x");
}

}  // namespace
}  // namespace tandem::distributed
