// Two jobs never write checkpoints into the same folder, whether its file system supports flock or not.
#include <tandem/distributed/system/host_identity.h>
#include <tandem/distributed/training/checkpoints/checkpoint_lock.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <support/temporary_folder.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <thread>

namespace tandem::distributed {
namespace {

using namespace std::chrono_literals;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;
using Options = CheckpointLock::Options;

// Each test runs with and without flock. Without flock, the intervals are short.
class CheckpointLocks : public ::testing::TestWithParam<bool> {
 protected:
  Options options() const { return {.uses_flock = GetParam(), .renewal = 50ms, .patience = 2s}; }
  std::filesystem::path file() const { return folder_ / "checkpoint.lock"; }
  LockOwner owner(std::int64_t pid, const std::string& run_id = "", std::int64_t restarts = 0) const {
    LockOwner owner = LockOwner::this_process();
    owner.pid = pid;
    owner.launcher = pid;
    owner.run_id = run_id;
    owner.restarts = restarts;
    return owner;
  }

  TemporaryFolder folder_;
};

TEST_P(CheckpointLocks, ASecondJobIsRefusedUntilTheFirstHasEnded) {
  std::optional<CheckpointLock> first;
  first.emplace(folder_.path(), owner(11), options());
  EXPECT_ERROR(CheckpointLock(folder_.path(), owner(12), options()), "another job is writing checkpoints into",
               folder_.path().string(), "process 11 on host " + host_name() + ", which began", "s ago",
               "remove " + file().string());
  // The second job does not disturb the first either.
  first->check();
  EXPECT_NE(read_bytes(file()).find("\"pid\":11"), std::string::npos);
  first.reset();
  EXPECT_TRUE(folder_.names().empty());
  CheckpointLock(folder_.path(), owner(12), options()).check();
}

// A killed job of another user has left the file. This user may only read it, but may write to the folder.
TEST(CheckpointLock, AFileThatNobodyHoldsIsNoLock) {
  const TemporaryFolder folder;
  const auto file = folder / "checkpoint.lock";
  testing::write_bytes(file, "{}");
  ASSERT_EQ(chmod(file.c_str(), 0444), 0);
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t nobody = 65534;
    if (getuid() == 0 && setuid(nobody) != 0) _exit(2);  // root may write anything
    try {
      CheckpointLock(folder.path()).check();
      _exit(0);
    } catch (const std::exception&) {
      _exit(1);
    }
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(folder.names().empty());
}

// Users who can read a file can lock it, and could keep a job out of its folder forever.
TEST(CheckpointLock, IsNotForOtherUsersToOpen) {
  const TemporaryFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  const auto file = folder / "checkpoint.lock";
  const mode_t before = umask(0);
  const CheckpointLock lock(folder.path());
  umask(before);
  struct stat status {};
  ASSERT_EQ(stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

// The file names the process that wrote it. A different process may hold its lock.
TEST(CheckpointLock, NamesTheProcessThatReallyHoldsIt) {
  const TemporaryFolder folder;
  const auto file = folder / "checkpoint.lock";
  LockOwner writer = LockOwner::this_process();
  writer.pid = 11;
  write_bytes(file, writer.text());
  const int other = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(other, LOCK_SH), 0);
  EXPECT_ERROR(CheckpointLock(folder.path()), "process 11 on host ",
               ". The lock is held by process " + std::to_string(getpid()) + " (test_distribute) of user ",
               "or if the process that holds the lock does not belong to it, remove " + file.string());
  std::filesystem::remove(file);
  CheckpointLock(folder.path()).check();
  close(other);
}

// A job of root has left the file in a different user's folder.
TEST(CheckpointLock, AFileOfAnotherUserIsNamedWithTheWayOut) {
  if (geteuid() != 0) GTEST_SKIP() << "NOT RUN: only root can act as another user";
  const TemporaryFolder folder;
  write_bytes(folder / "checkpoint.lock", "{}");
  ASSERT_EQ(chmod((folder / "checkpoint.lock").c_str(), 0600), 0);
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  std::string error;
  std::thread([&] {
    constexpr uid_t nobody = 65534;
    syscall(SYS_setresuid, -1, nobody, -1);  // changes only this thread
    try {
      const CheckpointLock lock(folder.path());
    } catch (const Error& found) {
      error = found.what();
    }
  }).join();
  testing::expect_parts(error, {"can't lock the folder of checkpoints with ", "Permission denied",
                                "The file belongs to the user 0", "remove the file"});
}

TEST(LockOwner, ATextOfAnotherProgramIsNoOwner) {
  LockOwner owner = LockOwner::this_process();
  owner.run_id = "run \n\xff";
  const auto text = owner.text();
  const auto back = LockOwner::parse(text);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->pid, owner.pid);
  EXPECT_EQ(back->name(), owner.name());
  const auto with = [&](const std::string& key, const std::string& value) {
    auto other = text;
    const auto at = other.find("\"" + key + "\":") + key.size() + 3;
    other.replace(at, other.find_first_of(",}", at) - at, value);
    return other;
  };
  EXPECT_TRUE(LockOwner::parse(with("host", "\"a\"")));
  for (const auto& number : {"1e300", "-1", "1.5", "\"1\"", "null", "[]", "18446744073709551615"}) {
    for (const auto& key : {"pid", "started", "launcher", "restarts"}) {
      EXPECT_FALSE(LockOwner::parse(with(key, number))) << key << ' ' << number;
    }
  }
  for (const auto& host : {"7", R"("a\u001b[2J")", R"("a\n")"}) EXPECT_FALSE(LockOwner::parse(with("host", host)));
  for (const auto& other : {"", "{", "[]", "{}", "7"}) EXPECT_FALSE(LockOwner::parse(other)) << other;
}

TEST_P(CheckpointLocks, AJobThatGoesOnKeepsItsLock) {
  auto impatient = options();
  impatient.patience = 500ms;
  const CheckpointLock first(folder_.path(), owner(11), impatient);
  std::this_thread::sleep_for(800ms);
  EXPECT_ERROR(CheckpointLock(folder_.path(), owner(12), impatient), "process 11");
}

// The two jobs may run on hosts of which only one can use flock on this file system.
TEST(CheckpointLock, AJobWithoutFlockRespectsOneWithFlock) {
  const TemporaryFolder folder;
  auto other = LockOwner::this_process();
  other.launcher = other.pid = 12;
  const CheckpointLock first(folder.path(), LockOwner::this_process(), {.renewal = 50ms, .patience = 500ms});
  std::this_thread::sleep_for(800ms);
  EXPECT_ERROR(CheckpointLock(folder.path(), other, {.uses_flock = false, .renewal = 50ms, .patience = 500ms}),
               "another job is writing checkpoints");
}

TEST_P(CheckpointLocks, AKilledJobLeavesAFileThatKeepsNobodyOut) {
  std::string text;
  {
    const CheckpointLock killed(folder_.path(), owner(11), options());
    text = read_bytes(file());
  }
  write_bytes(file(), text);
  // Only flock shows at once that the process has ended.
  if (!GetParam()) {
    EXPECT_ERROR(CheckpointLock(folder_.path(), owner(12), options()), "process 11");
    std::filesystem::last_write_time(file(), std::filesystem::file_time_type::clock::now() - 1h);
  }
  CheckpointLock(folder_.path(), owner(12), options()).check();
}

TEST_P(CheckpointLocks, ARestartOfTheRunTakesOverAtOnce) {
  std::optional<CheckpointLock> first;
  first.emplace(folder_.path(), owner(11, "run", 0), options());
  // These are not later starts of the same run.
  EXPECT_ERROR(CheckpointLock(folder_.path(), owner(12, "run", 0), options()), "process 11");
  EXPECT_ERROR(CheckpointLock(folder_.path(), owner(12, "other", 1), options()), "process 11");
  EXPECT_ERROR(CheckpointLock(folder_.path(), owner(12, "", 1), options()), "process 11");
  LockOwner foreign = owner(12, "run", 1);  // of another job, which has the same name
  foreign.job = "01234567";
  EXPECT_ERROR(CheckpointLock(folder_.path(), foreign, options()), "process 11");

  std::optional<CheckpointLock> second;
  second.emplace(folder_.path(), owner(12, "run", 1), options());
  EXPECT_ERROR(first->check(), "another job has taken over the checkpoints in", "process 12");
  first.reset();
  second->check();
  EXPECT_ERROR(CheckpointLock(folder_.path(), owner(13), options()), "process 12");
  second.reset();
  EXPECT_TRUE(folder_.names().empty());
}

TEST_P(CheckpointLocks, TheSameLauncherTakesOverAtOnce) {
  auto again = owner(11);
  again.pid = 12;
  again.restarts = 1;
  const CheckpointLock first(folder_.path(), owner(11), options());
  CheckpointLock(folder_.path(), again, options()).check();
}

TEST_P(CheckpointLocks, AFileWithoutSenseIsNoLock) {
  write_bytes(file(), "nonsense");
  std::filesystem::last_write_time(file(), std::filesystem::file_time_type::clock::now() - 1h);
  CheckpointLock(folder_.path(), owner(11), options()).check();
}

INSTANTIATE_TEST_SUITE_P(All, CheckpointLocks, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "WithFlock" : "WithoutFlock"; });

}  // namespace
}  // namespace tandem::distributed
