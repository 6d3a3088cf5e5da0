#include <tandem/core/base/check.h>
#include <tandem/distributed/launch/worker_process.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <support/running_process.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "support/launcher_fixture.h"
#include "support/refused_calls.h"

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;
using namespace tandem::testing;
using namespace std::chrono_literals;

class WorkerProcess : public LauncherTest {};

// A lease on a file blocks every process that opens it, as a file server does that no longer answers.
TEST_F(WorkerProcess, AProgramThatTheSystemCannotStartIsAnErrorInTime) {
  const auto program = (folder_ / "program").string();
  std::ofstream(program) << "#!/bin/sh\nexit 0\n";
  fs::permissions(program, fs::perms::owner_all);
  const FileDescriptor file(::open(program.c_str(), O_RDONLY));
  const auto before = ::signal(SIGIO, SIG_IGN);  // with this signal, the kernel asks for the lease back
  if (::fcntl(file.get(), F_SETLEASE, F_WRLCK) != 0) GTEST_SKIP() << "NOT RUN: this file system has no leases";
  WorkerCommand command;
  command.path = program;
  command.arguments = {program};
  std::string text;
  const auto start = std::chrono::steady_clock::now();
  {
    const Guardian guardian("");
    try {
      start_worker(command, guardian, 300ms);
    } catch (const Error& error) {
      text = error.what();
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  EXPECT_NE(text.find("cannot run " + program + ": the system has not started it within 0.3 s"), std::string::npos)
      << text;
  ::fcntl(file.get(), F_SETLEASE, F_UNLCK);
  ::signal(SIGIO, before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process is left behind";
}

// A program may call launch() with signals blocked, and goes on when the job has ended.
TEST_F(WorkerProcess, TheCallerOfALaunchGetsItsMaskOfSignalsBack) {
  sigset_t mask, before;
  ::sigemptyset(&mask);
  ::sigaddset(&mask, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &mask, &before);
  {
    const SignalPipe signals;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    EXPECT_FALSE(::sigismember(&mask, SIGTERM));
  }
  ::pthread_sigmask(SIG_SETMASK, &before, &mask);
  EXPECT_TRUE(::sigismember(&mask, SIGTERM));
}

// The system's reason alone, "No such file or directory", would seem to be about the script.
TEST_F(WorkerProcess, AMissingInterpreterIsNamed) {
  const auto program = (folder_ / "program").string();
  std::ofstream(program) << "#!/no/such/interpreter\n";
  fs::permissions(program, fs::perms::owner_all);
  WorkerCommand command;
  command.path = program;
  command.arguments = {program};
  const Guardian guardian("");
  EXPECT_ERROR(start_worker(command, guardian), "cannot run " + program, "the interpreter in its first line");
}

// Kernels before 5.9 have no close_range, and old sandboxes refuse it.
TEST_F(WorkerProcess, TheGuardianKeepsNoFilesOpenWithoutCloseRange) {
  for (const unsigned error : {ENOSYS, EPERM}) {
    const pid_t child = fork();
    if (child == 0) {
      refuse_call(SYS_close_range, error);
      const int kept = ::open("/dev/null", O_RDONLY);
      auto guardian = std::make_unique<Guardian>("");
      const auto children = "/proc/self/task/" + std::to_string(::getpid()) + "/children";
      pid_t pid = 0;
      std::ifstream(children) >> pid;
      const auto files = "/proc/" + std::to_string(pid) + "/fd";
      const bool has_closed =
          eventually([&] { return std::distance(fs::directory_iterator(files), fs::directory_iterator()) == 1; });
      guardian.reset();
      _exit(kept > 0 && has_closed ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

}  // namespace
}  // namespace tandem::distributed
