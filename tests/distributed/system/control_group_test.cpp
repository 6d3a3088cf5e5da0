#include <tandem/distributed/system/control_group.h>

#include <gtest/gtest.h>
#include <support/process.h>
#include <support/sanitizers.h>
#include <support/temporary_folder.h>

#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;
using testing::expect_parts;

class ControlGroupsTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const auto file = folder_ / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  ControlGroups groups(const std::string& membership) const { return {membership, folder_.path()}; }

  testing::TemporaryFolder folder_;
};

TEST_F(ControlGroupsTest, TheTightestLimitAboveCounts) {
  write("slice/cpu.max", "150000 100000\n");
  write("slice/job/cpu.max", "max 100000\n");
  write("slice/memory.max", "max\n");
  write("slice/job/memory.max", "1048576\n");
  write("slice/job/memory.events", "low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\n");
  const auto here = groups("0::/slice/job\n");
  EXPECT_EQ(here.cpu_limit(), 1.5);
  EXPECT_EQ(here.memory_limit(), 1048576);
  EXPECT_EQ(here.memory_kills(), 2);
  EXPECT_EQ(groups("0::/\n").cpu_limit(), std::nullopt);
  EXPECT_EQ(groups("0::/\n").memory_kills(), std::nullopt);
}

// The kernel would drop inactive cached files before it kills a process.
TEST_F(ControlGroupsTest, WhatIsLeftIsTheLeastAboveWithCachedFiles) {
  write("slice/memory.max", "1000\n");
  write("slice/memory.current", "700\n");
  write("slice/memory.stat", "anon 600\ninactive_file 50\nactive_file 50\n");
  write("slice/job/memory.max", "600\n");
  write("slice/job/memory.current", "100\n");
  write("memory/a/memory.limit_in_bytes", "4096\n");
  write("memory/a/memory.usage_in_bytes", "4000\n");
  write("memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 10\n");
  EXPECT_EQ(groups("0::/slice/job\n").memory_left(), 350);
  EXPECT_EQ(groups("4:memory:/a\n0::/\n").memory_left(), 106);
  EXPECT_EQ(groups("0::/\n").memory_left(), std::nullopt);
  const auto available = available_memory();
  ASSERT_TRUE(available);
  EXPECT_GT(*available, 1 << 20);
}

TEST_F(ControlGroupsTest, VersionOneHasAFolderForEachController) {
  write("cpu/box/cpu.cfs_quota_us", "50000\n");
  write("cpu/box/cpu.cfs_period_us", "100000\n");
  write("cpu/cpu.cfs_quota_us", "-1\n");
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("memory/a/memory.limit_in_bytes", "4096\n");
  write("memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
  const auto here = groups("4:memory:/a\n2:cpu,cpuacct:/box\n1:name=systemd:/c\n0::/\n");
  EXPECT_EQ(here.cpu_limit(), 0.5);
  EXPECT_EQ(here.memory_limit(), 4096);
  EXPECT_EQ(here.memory_kills(), 5);
}

TEST_F(ControlGroupsTest, APathOfTheHostThatIsNotSeenHereStillHasItsTop) {
  write("cpu.max", "200000 100000");
  write("memory.events", "oom_kill 1\n");
  const auto here = groups("0::/docker/0123\n");
  EXPECT_EQ(here.cpu_limit(), 2.0);
  EXPECT_EQ(here.memory_kills(), 1);
}

TEST_F(ControlGroupsTest, NonsenseIsNoLimit) {
  write("cpu.max", "lots\n");
  write("memory.max", "-5\n");
  for (const char* membership : {"", "what\n", "a:b\n", "0::\n", "0::/x\n"}) {
    EXPECT_EQ(groups(membership).cpu_limit(), std::nullopt) << membership;
    EXPECT_EQ(groups(membership).memory_limit(), std::nullopt) << membership;
    EXPECT_EQ(groups(membership).memory_kills(), std::nullopt) << membership;
  }
}

// A separate control group with limits, in which a command runs.
class LimitedGroup {
 public:
  LimitedGroup(const std::string& controller, const std::map<std::string, std::string>& v1,
               const std::map<std::string, std::string>& v2) {
    const fs::path root = "/sys/fs/cgroup";
    const bool is_v1 = fs::exists(root / controller);
    path_ = (is_v1 ? root / controller : root) / ("tandem-test-" + std::to_string(getpid()));
    std::error_code error;
    has_made_it_ = fs::create_directory(path_, error);
    is_usable_ = has_made_it_;
    for (const auto& [file, text] : is_v1 ? v1 : v2)
      is_usable_ = is_usable_ && bool(std::ofstream(path_ / file) << text << std::flush);
  }
  ~LimitedGroup() {
    if (has_made_it_) rmdir(path_.c_str());
  }
  bool is_usable() const { return is_usable_; }
  testing::Outcome run(const std::string& command) const {
    return testing::run_process({"sh", "-c", "echo $$ > " + (path_ / "cgroup.procs").string() + " && " + command});
  }

 private:
  fs::path path_;
  bool has_made_it_ = false;
  bool is_usable_ = false;
};

const std::string tandemrun = TANDEM_PROGRAM_DIR "/tandemrun";

TEST(LauncherInAGroup, SaysWhenTheKernelKilledARankForLackOfMemory) {
  // The limit is more than the launcher needs. The rank takes more and more memory, because tail waits for the end of a
  // line.
  const int mebibytes = 64 * testing::sanitizer_factor;
  const auto limit = std::to_string(mebibytes << 20);
  const LimitedGroup group("memory", {{"memory.limit_in_bytes", limit}},
                           {{"memory.max", limit}, {"memory.swap.max", "0"}});
  if (!group.is_usable()) GTEST_SKIP() << "NOT RUN: this needs the right to make a control group with a memory limit";
  const auto outcome = group.run("exec " + tandemrun +
                                 " --nproc-per-node 2 sh -c 'test $RANK = 0 && exec sleep 60; exec tail /dev/zero'");
  EXPECT_EQ(outcome.code, 128 + SIGKILL);
  expect_parts(outcome.err, {"rank 1 failed first: killed by SIGKILL: probably out of memory (the kernel killed ",
                             "the limit here is " + std::to_string(mebibytes) + " MiB"});
}

TEST(LauncherInAGroup, CountsTheProcessorTimeItMayUse) {
  const LimitedGroup group("cpu", {{"cpu.cfs_period_us", "100000"}, {"cpu.cfs_quota_us", "100000"}},
                           {{"cpu.max", "100000 100000"}});
  if (!group.is_usable())
    GTEST_SKIP() << "NOT RUN: this needs the right to make a control group with a limit of processor time";
  const auto outcome = group.run("unset OMP_NUM_THREADS; exec " + tandemrun +
                                 " --nproc-per-node auto sh -c 'echo $WORLD_SIZE x $OMP_NUM_THREADS'");
  EXPECT_EQ(outcome.out, "1 x 1\n") << outcome.err;
}

}  // namespace
}  // namespace tandem::distributed
