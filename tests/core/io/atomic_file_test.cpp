#include <tandem/core/io/atomic_file.h>
#include <tandem/core/io/file_system.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

#include "support/full_disk.h"
#include "support/refused_calls.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;
using Names = std::vector<std::string>;

void write_atomically(const std::filesystem::path& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

TEST(AtomicFile, CreatesAndReplaces) {
  TemporaryFolder folder;
  write_atomically(folder / "a", "first");
  EXPECT_EQ(read_bytes(folder / "a"), "first");
  write_atomically(folder / "a", "2nd");
  EXPECT_EQ(read_bytes(folder / "a"), "2nd");
  write_atomically(folder / "empty", "");
  EXPECT_EQ(folder.names(), (Names{"a", "empty"}));
}

// This also holds behind a link. Otherwise, a write could replace a device of the whole machine.
TEST(AtomicFile, LeavesDevicesAndPipesAlone) {
  TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", folder / "link");
  std::filesystem::create_symlink("/dev/null", folder / "null");
  for (const char* name : {"pipe", "link", "null"})
    EXPECT_ERROR(AtomicFile(folder / name), "cannot write", "it is a device, a pipe or a socket");
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(AtomicFile, ShowsNothingBeforeCommitAndLeavesNothingWithout) {
  TemporaryFolder folder;
  write_bytes(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("new", 3);
    EXPECT_EQ(read_bytes(folder / "a"), "old");
  }
  EXPECT_EQ(read_bytes(folder / "a"), "old");
  EXPECT_EQ(folder.names(), Names{"a"});
}

TEST(AtomicFile, ManyWritersOfOnePathEachWriteAllOfIt) {
  TemporaryFolder folder;
  AtomicFile one(folder / "a");
  AtomicFile two(folder / "a");
  one.write("one", 3);
  two.write("second", 6);
  two.commit();
  one.commit();
  EXPECT_EQ(read_bytes(folder / "a"), "one");
  EXPECT_EQ(folder.names(), Names{"a"});
}

TEST(AtomicFile, KilledWriterLeavesTheOldFile) {
  TemporaryFolder folder;
  write_bytes(folder / "a", "old");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    AtomicFile file(folder / "a");
    file.write("new", 3);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(read_bytes(folder / "a"), "old");
}

TEST(AtomicFile, FollowsASymbolicLink) {
  TemporaryFolder folder;
  write_bytes(folder / "target", "old");
  std::filesystem::create_symlink("target", folder / "link");
  write_atomically(folder / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_bytes(folder / "target"), "new");
}

TEST(AtomicFile, FollowsLinksOneAfterAnother) {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder / "below");
  std::filesystem::create_symlink("below/second", folder / "first");
  std::filesystem::create_symlink("../target", folder / "below" / "second");
  write_atomically(folder / "first", "new");
  EXPECT_EQ(read_bytes(folder / "target"), "new");
  std::filesystem::create_symlink("circle", folder / "circle");
  EXPECT_ERROR(AtomicFile(folder / "circle"), "its symbolic links form a loop");
}

// In /tmp, another user could place a link that makes a job overwrite one of its user's files.
TEST(AtomicFile, UsesNothingOfAnotherUserInAStickyFolder) {
  constexpr uid_t me = 1000, other = 1001, root = 0;
  constexpr mode_t sticky = 01777;
  EXPECT_FALSE(is_safe_entry(other, root, sticky, me));
  EXPECT_FALSE(is_safe_entry(other, root, sticky, root));
  EXPECT_FALSE(is_safe_entry(root, me, sticky, me));
  EXPECT_TRUE(is_safe_entry(me, root, sticky, me));
  EXPECT_TRUE(is_safe_entry(root, root, sticky, me));
  EXPECT_TRUE(is_safe_entry(other, root, 01775, me));
  EXPECT_TRUE(is_safe_entry(other, root, 0777, me));
  if (::geteuid() != root) GTEST_SKIP() << "NOT RUN: only root can make a link of another user";

  TemporaryFolder folder;
  write_bytes(folder / "mine", "old");
  std::filesystem::create_directory(folder / "sticky");
  ASSERT_EQ(::chmod((folder / "sticky").c_str(), sticky), 0);
  std::filesystem::create_symlink(folder / "mine", folder / "sticky" / "theirs");
  std::filesystem::create_symlink("sticky/theirs", folder / "to_theirs");
  write_atomically(folder / "sticky" / "theirs", "new");
  if (::lchown((folder / "sticky" / "theirs").c_str(), other, other) != 0) GTEST_SKIP() << "NOT RUN: no other users";
  for (const char* name : {"sticky/theirs", "to_theirs"})
    EXPECT_ERROR(AtomicFile(folder / name), (folder / "sticky" / "theirs").string(),
                 "belongs to another user (uid 1001)", "give a path in your own folder");
  EXPECT_EQ(read_bytes(folder / "mine"), "new");
  // Nor does it write into their folder there, where the links are theirs too.
  std::filesystem::create_directory(folder / "sticky" / "folder");
  write_atomically(folder / "sticky" / "folder" / "a", "new");
  ASSERT_EQ(::lchown((folder / "sticky" / "folder").c_str(), other, other), 0);
  EXPECT_ERROR(AtomicFile(folder / "sticky" / "folder" / "a"), (folder / "sticky" / "folder").string() + " belongs to");
  EXPECT_ERROR(create_folder(folder / "sticky" / "folder" / "below", "for logs"), "belongs to another user (uid 1001)");
}

TEST(AtomicFile, ObeysTheUmask) {
  TemporaryFolder folder;
  const mode_t before = ::umask(027);
  write_atomically(folder / "a", "x");
  ::umask(before);
  EXPECT_EQ(std::filesystem::status(folder / "a").permissions(), std::filesystem::perms(0640));
}

TEST(AtomicFile, MissingFolderAndWrongPaths) {
  TemporaryFolder folder;
  write_bytes(folder / "file", "x");
  EXPECT_ERROR(AtomicFile(folder / "missing" / "a"), (folder / "missing").string(), "No such file",
               "create the folder first");
  EXPECT_ERROR(AtomicFile(folder / "file" / "a"), "Not a directory", "correct the path");
  EXPECT_ERROR(AtomicFile(folder.path()), "it is a folder");
  EXPECT_ERROR(AtomicFile(""), "does not name a file");
  EXPECT_ERROR(AtomicFile(folder / std::string(300, 'n')), "File name too long", "choose a shorter name");
  EXPECT_EQ(folder.names(), Names{"file"});
}

TEST(AtomicFile, FolderWithoutPermission) {
  TemporaryFolder folder;
  write_bytes(folder / "a", "old");
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
  // root may write anywhere, so the test temporarily uses the file system as another user
  const bool is_root = ::geteuid() == 0;
  if (is_root) ::setfsuid(65534);
  EXPECT_ERROR(AtomicFile(folder / "a"), (folder / "a").string(), "Permission denied", "is unchanged");
  if (is_root) ::setfsuid(0);
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  EXPECT_EQ(read_bytes(folder / "a"), "old");
  EXPECT_EQ(folder.names(), Names{"a"});
}

TEST(AtomicFile, FailedWriteLeavesTheOldFileAndNoTemporary) {
  TemporaryFolder folder;
  write_bytes(folder / "a", "old");
  const std::string text(2000, 'x');
  {
    const testing::FullDisk full(1000);
    AtomicFile file(folder / "a");
    EXPECT_ERROR(file.write(text.data(), text.size()), (folder / "a").string(), "1000 bytes had been written",
                 "File too large", "is unchanged");
    EXPECT_ERROR(file.write(text.data(), 1), "was already committed");
    EXPECT_ERROR(file.commit(), "was already committed");
  }
  EXPECT_EQ(read_bytes(folder / "a"), "old");
  EXPECT_EQ(folder.names(), Names{"a"});
}

TEST(AtomicFile, FailedRenameLeavesNoTemporary) {
  TemporaryFolder folder;
  AtomicFile file(folder / "a");
  file.write("new", 3);
  std::filesystem::create_directory(folder / "a");
  EXPECT_ERROR(file.commit(), "Is a directory");
  EXPECT_EQ(folder.names(), Names{"a"});
}

// Simulates NFS and Lustre. The change is permanent, so call it in a child process.
void refuse_files_without_a_name() {
  testing::refuse_call(SYS_openat, EOPNOTSUPP, 2, O_TMPFILE);
  TANDEM_CHECK(::open("/tmp", O_WRONLY | O_TMPFILE, 0600) < 0, "files without a name are still possible");
}

// The first process of a container, on a file system without O_TMPFILE. It writes a file step by step.
class Container {
 public:
  enum Report : char { ready = 'r', no_container = 'n', written = 'w', failed = 'f' };

  Container(const std::filesystem::path& path, const std::string& text) {
    int ends[2];
    TANDEM_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "no pair of sockets");
    socket_ = ends[0];
    child_ = ::fork();
    if (child_ == 0) live(ends[1], path, text);
    ::close(ends[1]);
  }
  ~Container() {
    ::close(socket_);
    ::waitpid(child_, nullptr, 0);
  }
  Container(const Container&) = delete;
  Container& operator=(const Container&) = delete;

  Report take_a_step() { return ::write(socket_, "", 1) == 1 ? wait() : failed; }
  Report wait() {
    char report = failed;
    return ::read(socket_, &report, 1) == 1 ? Report{report} : failed;
  }

 private:
  int socket_;
  pid_t child_;

  [[noreturn]] static void live(int socket, const std::filesystem::path& path, const std::string& text) {
    const auto report = [&](Report what) { return ::write(socket, &what, 1) == 1; };
    const auto wait_for_a_step = [&] {
      char step = 0;
      if (::read(socket, &step, 1) != 1) ::_exit(0);
    };
    if (::unshare((::geteuid() == 0 ? 0 : CLONE_NEWUSER) | CLONE_NEWPID) != 0) {
      report(no_container);
      ::_exit(0);
    }
    if (const pid_t child = ::fork(); child != 0) {
      ::close(socket);
      ::waitpid(child, nullptr, 0);
      ::_exit(0);
    }
    try {
      TANDEM_CHECK(::getpid() == 1, "not the first process of a container");
      refuse_files_without_a_name();
      report(ready);
      wait_for_a_step();
      AtomicFile file(path);
      file.write(text.data(), text.size() / 2);
      report(written);
      wait_for_a_step();
      file.write(text.data() + text.size() / 2, text.size() - text.size() / 2);
      file.commit();
      report(written);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      report(failed);
    }
    ::_exit(0);
  }
};

TEST(AtomicFile, ContainersWithOneProcessIdLeaveEachOthersFilesAlone) {
  const TemporaryFolder folder;
  Container one(folder / "a", "first");
  Container two(folder / "a", "second");
  for (Container* container : {&one, &two}) {
    const auto report = container->wait();
    if (report == Container::no_container) GTEST_SKIP() << "NOT RUN: no process namespaces are allowed here";
    ASSERT_EQ(report, Container::ready);
  }
  for (Container* container : {&one, &two}) EXPECT_EQ(container->take_a_step(), Container::written);
  EXPECT_EQ(folder.names().size(), 2u);
  EXPECT_EQ(one.take_a_step(), Container::written);
  EXPECT_EQ(read_bytes(folder / "a"), "first");
  EXPECT_EQ(two.take_a_step(), Container::written);
  EXPECT_EQ(read_bytes(folder / "a"), "second");
  EXPECT_EQ(folder.names(), Names{"a"});
}

// Writes an empty file whose last modification is `age` ago.
void write_aged(const std::filesystem::path& path, std::chrono::hours age) {
  write_bytes(path, "");
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - age);
}

TEST(AtomicFile, RemovesWhatWritersLeftThatWereKilledLongAgo) {
  const TemporaryFolder folder;
  using std::chrono::hours;
  const Names kept = {
      ".a.123-0.tmp",                         // not Tandem's
      ".tandem-0123456789abcde.tmp",          // too short
      ".tandem-0123456789abcdeF.tmp",         // not a lowercase digit
      ".tandem-0123456789abcdef.tmp.backup",  // a user's copy
      "tandem-0123456789abcdef.tmp",
  };
  for (const auto& name : kept) write_aged(folder / name, hours(1000));
  write_aged(folder / ".tandem-0000000000000001.tmp", hours(23));
  write_aged(folder / ".tandem-0000000000000002.tmp", hours(25));
  write_aged(folder / ".tandem-0000000000000003.tmp", -hours(25));
  std::filesystem::create_directory(folder / ".tandem-0000000000000004.tmp");
  std::filesystem::create_symlink("none", folder / ".tandem-0000000000000005.tmp");
  for (const char* last : {"4", "5"}) {
    const timespec times[2] = {{1, 0}, {1, 0}};
    const auto path = folder / (std::string(".tandem-000000000000000") + last + ".tmp");
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW), 0);
  }
  write_aged(folder / ".tandem-fedcba9876543210.tmp", hours(1000));
  if (::geteuid() == 0) {
    write_aged(folder / ".tandem-0000000000000006.tmp", hours(1000));
    ASSERT_EQ(::chown((folder / ".tandem-0000000000000006.tmp").c_str(), 65534, 65534), 0);
  }
  write_atomically(folder / "a", "x");
  Names expected = kept;
  for (const char* last : {"1", "3", "4", "5", "6"})
    if (last[0] != '6' || ::geteuid() == 0) expected.push_back(std::string(".tandem-000000000000000") + last + ".tmp");
  expected.push_back("a");
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(folder.names(), expected);
}

TEST(AtomicFile, WorksWithoutFilesWithoutAName) {
  const TemporaryFolder folder;
  write_aged(folder / ".tandem-0000000000000001.tmp", std::chrono::hours(25));
  const pid_t child = ::fork();
  if (child == 0) {
    refuse_files_without_a_name();
    write_atomically(folder / "a", "old");
    {
      AtomicFile file(folder / "a");
      file.write("new", 3);
    }
    AtomicFile file(folder / "a");
    file.write("half", 4);
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_bytes(folder / "a"), "old");
  // A file that an ended process left is removed only when it is old.
  EXPECT_EQ(folder.names().size(), 2u);
  write_atomically(folder / "a", "new");
  EXPECT_EQ(folder.names().size(), 2u);
}

TEST(AtomicFile, TakesTheLongestName) {
  const TemporaryFolder folder;
  const std::string name(255, 'n');
  write_atomically(folder / name, "x");
  EXPECT_EQ(read_bytes(folder / name), "x");
}

}  // namespace
}  // namespace tandem
