#include <tandem/core/base/check.h>
#include <tandem/distributed/launch/worker_process.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tandem::distributed {
namespace {

// Blocks every signal until it is destroyed. This is necessary because a child has its parent's signal handlers between
// fork and exec.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  const sigset_t& previous() const { return previous_; }

 private:
  sigset_t previous_;
};

void reap(pid_t pid) {
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// A process that waits inside the kernel, for example for a file server, may not end even after SIGKILL. It is then
// left behind. A process that does end needs far less than 1 s.
void reap_soon(pid_t pid) {
  for (int i = 0; i < 100 && waitpid(pid, nullptr, WNOHANG) == 0; ++i) usleep(10'000);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// Runs in the forked process. Only async-signal-safe calls are allowed there: another thread may have held any lock at
// the moment of the fork.
[[noreturn]] void guard(int socket, const char* temporary_folder) {
  // A user who kills the launcher by its name (pkill, or pkill -f) must not kill the guardian too. The guardian
  // therefore changes its name, and also its first argument, to which program_invocation_name points.
  constexpr char name[] = "tandem-guard";
  prctl(PR_SET_NAME, name);
  const auto room = std::strlen(program_invocation_name);
  std::memset(program_invocation_name, 0, room);
  std::memcpy(program_invocation_name, name, std::min(room, sizeof name - 1));
  setsid();
  dup2(socket, 0);
  // The guardian must not keep the launcher's files, pipes and sockets open. closefrom() also works if the kernel is
  // older than close_range(2) or a sandbox rejects it.
  closefrom(1);
  constexpr int most = 4096;  // chosen: four times as many as a node may have ranks
  pid_t leaders[most];        // the leader's pid is also the number of its Unix process group
  int count = 0;
  for (;;) {
    pid_t leader;
    const auto n = ::read(0, &leader, sizeof leader);
    // With a number of 0 or 1, kill(2) would end this process's own Unix process group, or every process.
    if (n == sizeof leader && leader > 1 && count < most) leaders[count++] = leader;
    if (n == 0 || (n < 0 && errno != EINTR)) break;
  }
  for (int i = 0; i < count; ++i) kill(-leaders[i], SIGKILL);
  if (*temporary_folder) execl("/bin/rm", "rm", "-rf", "--", temporary_folder, nullptr);
  _exit(0);
}

// Also runs in the forked process. If a call fails, it writes errno to `status`. A successful exec closes `status`.
[[noreturn]] void become_worker(const WorkerCommand& command, char* const* arguments, char* const* environment,
                                pid_t launcher, int guardian, int status, const sigset_t& signals) {
  const auto fail = [status]() {
    const int reason = errno;
    [[maybe_unused]] const auto n = ::write(status, &reason, sizeof reason);
    _exit(127);
  };
  setsid();
  const pid_t leader = getpid();
  ::send(guardian, &leader, sizeof leader, MSG_NOSIGNAL);
  // If the launcher has died before this call, the kernel sends no SIGKILL. getppid() detects that.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail();
  if (getppid() != launcher) _exit(127);
  const FileDescriptor* streams[] = {&command.input, &command.output, &command.error};
  for (int i = 0; i < 3; ++i) {
    if (streams[i]->is_open() && dup2(streams[i]->get(), i) < 0) fail();
  }
  if (command.cores && sched_setaffinity(0, sizeof *command.cores, &*command.cores) != 0) fail();
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction current {};
    // An ignored signal stays ignored (nohup). The launcher's handlers are removed while all signals are still blocked.
    if (sigaction(number, nullptr, &current) == 0 && current.sa_handler != SIG_IGN) {
      sigaction(number, &standard, nullptr);
    }
  }
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  execve(command.path.c_str(), arguments, environment);
  fail();
  _exit(127);
}

std::atomic<int> signal_write_end{-1};

void note_signal(int number) {
  const int reason = errno;
  const auto byte = static_cast<unsigned char>(number);
  [[maybe_unused]] const auto n = ::write(signal_write_end, &byte, 1);
  errno = reason;
}

}  // namespace

Guardian::Guardian(const std::string& temporary_folder) {
  int ends[2];
  TANDEM_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0,
               "launcher: cannot create a pair of sockets: ", errno_text());
  socket_ = FileDescriptor(ends[0]);
  const FileDescriptor theirs(ends[1]);
  {
    const SignalsBlocked blocked;  // the guardian never unblocks them
    pid_ = fork();
    if (pid_ == 0) guard(theirs.get(), temporary_folder.c_str());
  }
  TANDEM_CHECK(pid_ > 0, "launcher: cannot start a process: ", std::strerror(errno));
}

Guardian::~Guardian() {
  kill(pid_, SIGKILL);
  reap(pid_);
}

pid_t start_worker(const WorkerCommand& command, const Guardian& guardian, std::chrono::milliseconds time) {
  int ends[2];
  TANDEM_CHECK(pipe2(ends, O_CLOEXEC) == 0, "launcher: cannot make a pipe: ", errno_text());
  const FileDescriptor status(ends[0]);
  FileDescriptor status_of_child(ends[1]);
  const auto arguments = pointers(command.arguments);
  const auto environment = pointers(command.environment);
  const pid_t launcher = getpid();
  pid_t pid;
  {
    const SignalsBlocked blocked;
    pid = fork();
    if (pid == 0) {
      become_worker(command, arguments.data(), environment.data(), launcher, guardian.socket(), ends[1],
                    blocked.previous());
    }
  }
  TANDEM_CHECK(pid > 0, "launcher: cannot start a process: ", std::strerror(errno));
  status_of_child.close();
  if (!wait_readable(status, RunningTime::now() + time)) {
    // The process may not lead its own Unix process group yet, so kill only the process itself.
    kill(pid, SIGKILL);
    reap_soon(pid);
    detail::fail("cannot run ", command.path, ": the system has not started it within ",
                 std::chrono::duration<double>(time).count(), " s (pid ", pid,
                 "); is it, or the interpreter in its first line, on a file server that does not respond?");
  }
  int reason = 0;
  ssize_t n;
  while ((n = ::read(status.get(), &reason, sizeof reason)) < 0 && errno == EINTR) {
  }
  if (n == sizeof reason) {
    reap(pid);
    detail::fail("cannot run ", command.path, ": ", std::strerror(reason),
                 reason == ENOEXEC  ? " (give a script a first line such as #!/bin/sh, or start its interpreter)"
                 : reason == ENOENT ? " (the interpreter in its first line, or its dynamic loader, is not installed)"
                                    : "");
  }
  return pid;
}

std::string find_program(const std::string& name) {
  const auto is_file = [](const std::string& path) {
    struct stat status {};
    return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
  };
  if (name.find('/') != std::string::npos) {
    struct stat status {};
    TANDEM_CHECK(stat(name.c_str(), &status) == 0, "cannot run ", name, ": ", std::strerror(errno));
    TANDEM_CHECK(S_ISREG(status.st_mode), "cannot run ", name, ": it is not a file");
    TANDEM_CHECK(access(name.c_str(), X_OK) == 0, "cannot run ", name, ": ", std::strerror(errno),
                 " (chmod +x, or put its interpreter in front)");
    return name;
  }
  const char* variable = std::getenv("PATH");
  const std::string folders = variable ? variable : "/usr/local/bin:/usr/bin:/bin";
  for (std::size_t begin = 0; begin <= folders.size();) {
    const auto end = std::min(folders.find(':', begin), folders.size());
    const auto path = (end > begin ? folders.substr(begin, end - begin) : ".") + "/" + name;
    if (is_file(path) && access(path.c_str(), X_OK) == 0) return path;
    begin = end + 1;
  }
  detail::fail("cannot run ", name, ": it is in no folder of PATH",
               is_file(name) ? "; for the file in this folder write ./" + name : "; give its path: FOLDER/" + name);
}

SignalPipe::SignalPipe() {
  TANDEM_CHECK(signal_write_end < 0, "launcher: another launch is running in this process");
  int ends[2];
  TANDEM_CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, "launcher: cannot make a pipe: ", errno_text());
  read_end_ = FileDescriptor(ends[0]);
  write_end_ = FileDescriptor(ends[1]);
  signal_write_end = ends[1];
  for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGUSR1, SIGUSR2}) {
    struct sigaction action {
    }, previous{};
    action.sa_handler = note_signal;
    sigaction(number, nullptr, &previous);
    // A user who starts a job with nohup expects SIGHUP to be ignored.
    if (number != SIGCHLD && previous.sa_handler == SIG_IGN) continue;
    sigaction(number, &action, nullptr);
    previous_.emplace_back(number, previous);
  }
  // A process inherits blocked signals from the one that started it. The ranks inherit this process's.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_UNBLOCK, &all, &previous_mask_);
}

SignalPipe::~SignalPipe() {
  pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
  for (const auto& [number, action] : previous_) sigaction(number, &action, nullptr);
  signal_write_end = -1;
}

void SignalPipe::read() {
  unsigned char bytes[64];
  ssize_t n;
  while ((n = ::read(read_end_.get(), bytes, sizeof bytes)) > 0) come_.insert(come_.end(), bytes, bytes + n);
}

std::vector<int> SignalPipe::take() {
  read();
  return std::exchange(come_, {});
}

bool SignalPipe::has_request() {
  read();
  return std::any_of(come_.begin(), come_.end(), asks_to_stop);
}

}  // namespace tandem::distributed
