#include <tandem/core/base/check.h>
#include <tandem/core/base/standard_output.h>
#include <tandem/distributed/job/together.h>
#include <tandem/distributed/launch/spawn.h>
#include <tandem/distributed/launch/worker_failure.h>
#include <tandem/distributed/store/tcp_store.h>
#include <tandem/distributed/system/cores.h>
#include <tandem/distributed/system/random_text.h>
#include <tandem/distributed/system/signal_name.h>
#include <tandem/distributed/system/socket.h>

#include <fcntl.h>
#include <omp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

namespace tandem::distributed {
namespace {

using std::chrono::system_clock;

constexpr auto grace = std::chrono::seconds(5);  // as in LaunchOptions
// The time for which spawn() waits after the first failure that it notices. If a rank dies, its peers fail because they
// lose their connections, and spawn() may notice the end of a peer first. The time is long for such a race, and short
// for a user.
constexpr auto settling = std::chrono::milliseconds(100);

// The message that the caller sends to the ranks once all of them have been started.
struct Meeting {
  int port = 0;
  char token[36] = "";  // 32 digits and a zero byte
};

// The message that a failing rank sends to the caller.
struct Report {
  std::int64_t time = 0;  // nanoseconds since 1970
  char message[4000] = "";
};
static_assert(sizeof(Report) <= PIPE_BUF, "written at once");

void make_pipe(FileDescriptor& reader, FileDescriptor& writer) {
  int ends[2];
  TANDEM_CHECK(pipe2(ends, O_CLOEXEC) == 0, "spawn: cannot make a pipe: ", errno_text());
  reader = FileDescriptor(ends[0]);
  writer = FileDescriptor(ends[1]);
}

void set_environment(int rank, int processes, const Meeting& meeting) {
  const auto number = std::to_string(rank), size = std::to_string(processes);
  const std::pair<const char*, std::string> variables[] = {
      {"RANK", number},
      {"LOCAL_RANK", number},
      {"WORLD_SIZE", size},
      {"LOCAL_WORLD_SIZE", size},
      {"GROUP_RANK", "0"},
      {"GROUP_WORLD_SIZE", "1"},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(meeting.port)},
      {"TANDEM_STORE_TOKEN", meeting.token},
      {"TANDEM_LAUNCHER", "spawn"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCHELASTIC_RUN_ID", "spawn"},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
      // A launcher sets these variables only for the process that it started.
      {"TORCHELASTIC_ERROR_FILE", ""},
      {"TANDEM_FLIGHT_DIR", ""},
  };
  for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
  const char* threads = std::getenv("OMP_NUM_THREADS");
  if (!threads || !*threads) omp_set_num_threads(std::max(1, available_cores() / processes));
}

// Runs a rank from its start to its end.
[[noreturn]] void live(int rank, int processes, const std::function<void(int)>& f, const FileDescriptor& start,
                       const FileDescriptor& report_to) {
  int exit_code = 1;
  Report report;
  try {
    Meeting meeting;
    if (::read(start.get(), &meeting, sizeof meeting) == sizeof meeting) {
      set_environment(rank, processes, meeting);
      f(rank);
      flush_standard_output();
      exit_code = 0;
    }
  } catch (const std::exception& error) {
    std::snprintf(report.message, sizeof report.message, "%s", error.what());
  } catch (...) {
    std::snprintf(report.message, sizeof report.message, unknown_exception);
  }
  if (exit_code) {
    report.time = std::chrono::nanoseconds(system_clock::now().time_since_epoch()).count();
    [[maybe_unused]] const auto written = ::write(report_to.get(), &report, sizeof report);
  }
  std::cout.flush();
  std::fflush(nullptr);
  _exit(exit_code);  // does not destroy static objects, which only the caller may do
}

// The caller of spawn() and its ranks.
class Family {
 public:
  Family(int processes, const std::function<void(int)>& f);
  ~Family();
  void introduce(const Meeting& meeting) const;
  // Returns when all ranks have ended without an error. If a rank has failed, throws an Error after all ranks have
  // ended.
  void join();

 private:
  struct Child {
    pid_t pid = -1;
    bool is_running = true;
    FileDescriptor start;    // the rank waits until the Meeting arrives through this pipe
    FileDescriptor reports;  // a failing rank writes its Report to this pipe
  };

  void start(int rank, const std::function<void(int)>& f);
  void reap();
  void send(int signal) const;
  void wait_until(Deadline deadline);
  bool is_any_running() const {
    return std::any_of(children_.begin(), children_.end(), [](const Child& c) { return c.is_running; });
  }

  const int processes_;
  std::vector<Child> children_;
  std::vector<WorkerFailure> failures_;
  bool is_stopping_ = false;
};

Family::Family(int processes, const std::function<void(int)>& f) : processes_(processes) {
  // Flush the buffers. Otherwise, every copy of this process would write their contents.
  std::cout.flush();
  std::fflush(nullptr);
  children_.reserve(static_cast<std::size_t>(processes));
  for (int rank = 0; rank < processes; ++rank) start(rank, f);
}

Family::~Family() {
  is_stopping_ = true;
  send(SIGKILL);
  while (is_any_running()) wait_until(RunningTime::now() + settling);
}

void Family::start(int rank, const std::function<void(int)>& f) {
  auto& child = children_.emplace_back();
  child.is_running = false;
  FileDescriptor start, report;
  make_pipe(start, child.start);
  make_pipe(child.reports, report);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  TANDEM_CHECK(pid >= 0, "spawn: cannot start process ", rank, " of ", processes_, ": ", std::strerror(errno));
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    for (auto& other : children_) {
      other.start.close();
      other.reports.close();
    }
    live(rank, processes_, f, start, report);
  }
  child.pid = pid;
  child.is_running = true;
}

void Family::introduce(const Meeting& meeting) const {
  for (const auto& child : children_) {
    // If the rank has already died, join() notices that.
    [[maybe_unused]] const auto written = ::write(child.start.get(), &meeting, sizeof meeting);
  }
}

void Family::reap() {
  for (std::size_t rank = 0; rank < children_.size(); ++rank) {
    auto& child = children_[rank];
    int status = 0;
    if (!child.is_running || waitpid(child.pid, &status, WNOHANG) != child.pid) continue;
    child.is_running = false;
    WorkerFailure failure;
    failure.rank = static_cast<int>(rank);
    failure.pid = child.pid;
    failure.end = {WIFEXITED(status), WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), is_stopping_,
                   system_clock::now()};
    failure.time = failure.end.seen;
    if (!failure.end.has_failed() || is_stopping_) continue;
    Report report;
    pollfd ready{child.reports.get(), POLLIN, 0};
    if (::poll(&ready, 1, 0) > 0 && ::read(child.reports.get(), &report, sizeof report) == sizeof report) {
      failure.message = report.message;
      failure.time = system_clock::time_point(std::chrono::nanoseconds(report.time));
    }
    failures_.push_back(failure);
  }
}

void Family::send(int signal) const {
  for (const auto& child : children_) {
    if (child.is_running) kill(child.pid, signal);
  }
}

// Waits until a rank may have ended, until the deadline, or for 50 ms.
void Family::wait_until(Deadline deadline) {
  std::vector<pollfd> ends;
  for (const auto& child : children_) {
    if (child.is_running) ends.push_back({child.reports.get(), 0, 0});
  }
  // A rank that ends closes its pipe. But a process that the rank left behind may keep the pipe open, so reap() must
  // check from time to time (every 50 ms). The pipe may also be closed a moment before waitpid() notices the end. The
  // pause of 1 ms keeps the callers' loops from spinning until then.
  const auto most = std::min<Deadline>(deadline, RunningTime::now() + std::chrono::milliseconds(50));
  if (poll_until(ends.data(), ends.size(), most)) usleep(1000);
  reap();
}

void Family::join() {
  while (is_any_running() && failures_.empty()) wait_until(Deadline::max());
  if (failures_.empty()) return;
  for (const auto end = RunningTime::now() + settling; is_any_running() && RunningTime::now() < end;) {
    wait_until(end);
  }
  is_stopping_ = true;
  send(SIGTERM);
  for (const auto end = RunningTime::now() + grace; is_any_running() && RunningTime::now() < end;) {
    wait_until(end);
  }
  send(SIGKILL);
  while (is_any_running()) wait_until(Deadline::max());

  sort_by_cause(failures_);
  const auto& first = failures_.front();
  std::string how = ": " + first.message;
  if (!first.end.has_exited) {
    how = " was killed by " + signal_name(first.end.status);
  } else if (first.message.empty()) {
    how = " ended with exit code " + std::to_string(first.end.status);
  }
  detail::fail("spawn: rank ", first.rank, " of ", processes_, how);
}

}  // namespace

void spawn(int processes, const std::function<void(int)>& f) {
  prepare_standard_streams();
  TANDEM_CHECK(processes >= 1, "spawn: ", processes, " processes requested, expected at least 1");
  const auto threads = std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  TANDEM_CHECK(threads == 1, "spawn: this process has ", threads,
               " threads, and a copy of it would have only one: call spawn before any computation (OpenMP "
               "and CUDA keep their threads) "
               "and before loaders, groups or stores are made; or start the program with tandemrun instead");
  struct sigaction on_end {};
  TANDEM_CHECK(sigaction(SIGCHLD, nullptr, &on_end) == 0 && on_end.sa_handler != SIG_IGN,
               "spawn: this process ignores SIGCHLD, so it would not notice how its ranks end");
  Family family(processes, f);
  const auto token = random_text(4);
  const TcpStoreServer server({"127.0.0.1", 0, token});  // made after the forks, because it has a thread
  Meeting meeting;
  meeting.port = server.port();
  token.copy(meeting.token, sizeof meeting.token - 1);
  family.introduce(meeting);
  family.join();
}

}  // namespace tandem::distributed
