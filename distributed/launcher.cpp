#include <tandem/core/check.h>
#include <tandem/distributed/cores.h>
#include <tandem/distributed/launcher.h>
#include <tandem/distributed/log_folder.h>
#include <tandem/distributed/tcp_store.h>
#include <tandem/distributed/worker_failure.h>
#include <tandem/distributed/worker_output.h>
#include <tandem/distributed/worker_process.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>

extern char** environ;

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

std::string random_text(int words) {
  std::random_device random;
  std::string text;
  char digits[9];
  for (int i = 0; i < words; ++i) {
    std::snprintf(digits, sizeof digits, "%08x", random());
    text += digits;
  }
  return text;
}

struct Worker {
  int rank = 0;
  pid_t pid = -1;
  bool is_running = true;
  std::string error_file;
  std::string stderr_log;  // where its stderr went instead of to us, if it did
  std::vector<std::unique_ptr<WorkerStream>> streams;
  WorkerStream* error_stream = nullptr;
  WorkerEnd end;
};

FileDescriptor open_file(const fs::path& path, int flags) {
  FileDescriptor file(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  TANDEM_CHECK(file.is_open(), "cannot open ", path.string(), ": ", std::strerror(errno));
  return file;
}

class Job {
 public:
  Job(const LaunchOptions& options, const std::vector<std::string>& command);
  ~Job();
  int run();

 private:
  Worker start(int rank);
  WorkerStream* connect(Worker& worker, int fd, const fs::path& folder, FileDescriptor& theirs);
  std::vector<std::string> environment(int rank, const std::string& error_file) const;
  void poll_once();
  void notice_ends();
  void act_on(int signal);
  void stop(int signal, Deadline kill_at);
  void kill_running(steady_clock::time_point now);
  void kill_groups(int signal, bool only_running);
  void drain();
  int conclude();
  bool is_any_running() const {
    return std::any_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.is_running; });
  }

  const LaunchOptions& options_;
  const std::vector<std::string>& command_;
  const std::string path_;
  const std::string run_id_;
  const std::string token_;
  const int cores_ = available_cores();
  const steady_clock::time_point start_ = steady_clock::now();
  LogFolder logs_;
  Console out_{STDOUT_FILENO};
  Console err_{STDERR_FILENO};
  // In this order: the guardian must not inherit the handlers, nor the store's socket.
  std::unique_ptr<Guardian> guardian_;
  SignalPipe signals_;
  std::unique_ptr<TcpStoreServer> server_;
  std::vector<Worker> workers_;

  bool has_failed_ = false;
  int stopped_by_ = 0;                  // the signal that ended the launcher, if one did
  Deadline stop_at_ = Deadline::max();  // when SIGTERM goes out
  Deadline kill_at_ = Deadline::max();  // when SIGKILL goes out
  bool is_stopping_ = false;
  bool has_killed_ = false;
  bool has_warned_ = false;
};

Job::Job(const LaunchOptions& options, const std::vector<std::string>& command)
    : options_(options),
      command_(command),
      path_(find_program(command.front())),
      run_id_(options.run_id.empty() ? random_text(2) : options.run_id),
      token_(options.open_store ? "" : random_text(4)),
      logs_(options.log_dir, run_id_, options.redirects.is_any() || options.tee.is_any()),
      guardian_(std::make_unique<Guardian>()),
      server_(std::make_unique<TcpStoreServer>(
          TcpStoreServer::Options{options.master_addr, options.master_port, token_})) {
  workers_.reserve(static_cast<std::size_t>(options.processes));
}

Job::~Job() {
  // The groups' leaders have not been reaped yet, so their numbers cannot have passed to other processes.
  kill_groups(SIGKILL, false);
  guardian_.reset();
  for (const auto& worker : workers_) {
    // One that does not end after SIGKILL has been waited for.
    const int how = has_killed_ && worker.is_running ? WNOHANG : 0;
    while (waitpid(worker.pid, nullptr, how) < 0 && errno == EINTR) {
    }
  }
}

std::vector<std::string> Job::environment(int rank, const std::string& error_file) const {
  const auto size = std::to_string(options_.processes);
  const auto number = std::to_string(rank);
  std::map<std::string, std::string> ours = {
      {"RANK", number},
      {"LOCAL_RANK", number},
      {"ROLE_RANK", number},
      {"GROUP_RANK", "0"},
      {"ROLE_NAME", options_.role},
      {"WORLD_SIZE", size},
      {"LOCAL_WORLD_SIZE", size},
      {"ROLE_WORLD_SIZE", size},
      {"GROUP_WORLD_SIZE", "1"},
      {"MASTER_ADDR", options_.master_addr},
      {"MASTER_PORT", std::to_string(server_->port())},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
      {"TORCHELASTIC_MAX_RESTARTS", "0"},
      {"TORCHELASTIC_RUN_ID", run_id_},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCHELASTIC_ERROR_FILE", error_file},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"TANDEM_STORE_TOKEN", token_},
  };
  if (!std::getenv("OMP_NUM_THREADS")) {
    ours["OMP_NUM_THREADS"] = std::to_string(std::max(1, cores_ / options_.processes));
  }
  std::vector<std::string> result;
  for (char** variable = environ; *variable; ++variable) {
    const std::string text = *variable;
    if (!ours.count(text.substr(0, text.find('=')))) result.push_back(text);
  }
  for (const auto& [name, value] : ours) result.push_back(name + "=" + value);
  return result;
}

// Decides where the worker's stdout or stderr goes: opens the end that the worker gets, and ours if there is
// one.
WorkerStream* Job::connect(Worker& worker, int fd, const fs::path& folder, FileDescriptor& theirs) {
  const int bit = fd == STDOUT_FILENO ? 1 : 2;
  const auto log_path = folder / (fd == STDOUT_FILENO ? "stdout.log" : "stderr.log");
  const bool tees = options_.tee.of(worker.rank) & bit;
  if (!tees && (options_.redirects.of(worker.rank) & bit)) {
    theirs = open_file(log_path, O_WRONLY | O_CREAT | O_TRUNC);
    if (fd == STDERR_FILENO) worker.stderr_log = log_path;
    return nullptr;
  }
  const bool is_shown = !options_.shown_local_ranks || options_.shown_local_ranks->count(worker.rank);
  if (worker.rank == 0 && is_shown && !tees) return nullptr;  // our own stream
  int ends[2];
  TANDEM_CHECK(pipe2(ends, O_CLOEXEC) == 0, "launcher: cannot make a pipe: ", std::strerror(errno));
  FileDescriptor ours(ends[0]);
  theirs = FileDescriptor(ends[1]);
  Console* console = !is_shown ? nullptr : fd == STDOUT_FILENO ? &out_ : &err_;
  auto prefix = worker.rank == 0 ? "" : "[rank" + std::to_string(worker.rank) + "] ";
  auto log = tees ? open_file(log_path, O_WRONLY | O_CREAT | O_TRUNC) : FileDescriptor();
  worker.streams.push_back(
      std::make_unique<WorkerStream>(std::move(ours), console, std::move(prefix), std::move(log)));
  return worker.streams.back().get();
}

Worker Job::start(int rank) {
  Worker worker;
  worker.rank = rank;
  const auto folder = logs_.of(rank);
  worker.error_file = folder / "error.json";
  WorkerCommand command;
  command.path = path_;
  command.arguments = command_;
  command.environment = environment(rank, worker.error_file);
  if (rank != 0) command.input = open_file("/dev/null", O_RDONLY);
  connect(worker, STDOUT_FILENO, folder, command.output);
  worker.error_stream = connect(worker, STDERR_FILENO, folder, command.error);
  if (options_.bind_cores) command.cores = core_share(rank, options_.processes);
  worker.pid = start_worker(command, *guardian_);
  return worker;
}

int Job::run() {
  for (int rank = 0; rank < options_.processes; ++rank) workers_.push_back(start(rank));
  while (is_any_running()) poll_once();
  return conclude();
}

void Job::poll_once() {
  std::vector<pollfd> watched = {{signals_.fd(), POLLIN, 0}};
  std::vector<Console*> writers;
  std::vector<WorkerStream*> readers;
  for (auto* console : {&out_, &err_}) {
    if (!console->has_waiting()) continue;
    watched.push_back({console->fd(), POLLOUT, 0});
    writers.push_back(console);
  }
  for (const auto& worker : workers_) {
    for (const auto& stream : worker.streams) {
      // Who prints faster than the console takes it has to wait.
      if (!stream->is_open() || (stream->console() && stream->console()->is_full())) continue;
      watched.push_back({stream->fd(), POLLIN, 0});
      readers.push_back(stream.get());
    }
  }
  const auto next = std::min({stop_at_, kill_at_, steady_clock::now() + std::chrono::seconds(1)});
  if (::poll(watched.data(), watched.size(), poll_timeout(next)) < 0) {
    TANDEM_CHECK(errno == EINTR, "launcher: cannot wait: ", std::strerror(errno));
    return;
  }
  auto event = watched.begin() + 1;
  for (auto* writer : writers) {
    if ((event++)->revents) writer->write_some();
  }
  for (auto* reader : readers) {
    if ((event++)->revents) reader->read_some();
  }
  for (const int signal : signals_.take()) {
    signal == SIGCHLD ? notice_ends() : act_on(signal);
  }
  const auto now = steady_clock::now();
  if (now >= stop_at_) stop(SIGTERM, now + options_.grace);
  if (now >= kill_at_) kill_running(now);
  if (!has_warned_ && server_->refused_clients() > 0) {
    has_warned_ = true;
    err_.add(
        "tandemrun: a process without the job's token was turned away from the store; ranks that are not "
        "Tandem's "
        "(Python's) need --open-store\n");
  }
}

void Job::kill_running(steady_clock::time_point now) {
  // A process that the system cannot end (it hangs in a file server, say) is not worth waiting for.
  constexpr auto patience = std::chrono::seconds(30);
  for (const auto& worker : workers_) {
    TANDEM_CHECK(!has_killed_ || !worker.is_running, "rank ", worker.rank, " (pid ", worker.pid,
                 ") does not end, not even by SIGKILL; left behind");
  }
  has_killed_ = true;
  kill_at_ = now + patience;
  kill_groups(SIGKILL, true);
}

void Job::notice_ends() {
  for (auto& worker : workers_) {
    if (!worker.is_running) continue;
    siginfo_t info{};
    // It stays a zombie until the job is over: its number is that of its process group.
    if (waitid(P_PID, static_cast<id_t>(worker.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0)
      continue;
    worker.is_running = false;
    worker.end = {info.si_code == CLD_EXITED, info.si_status, is_stopping_, std::chrono::system_clock::now()};
    if (worker.end.has_failed() && !has_failed_ && !is_stopping_) {
      has_failed_ = true;
      // Ranks that fail together should all get to say so before they are told to stop.
      stop_at_ = steady_clock::now() + std::chrono::milliseconds(200);
    }
  }
}

void Job::act_on(int signal) {
  const auto now = steady_clock::now();
  if (stopped_by_) {
    if (!has_killed_) kill_running(now);  // asked twice
    return;
  }
  stopped_by_ = signal;
  stop(signal, std::min(kill_at_, now + options_.grace));
}

void Job::stop(int signal, Deadline kill_at) {
  is_stopping_ = true;
  stop_at_ = Deadline::max();
  kill_at_ = kill_at;
  kill_groups(signal, true);
}

void Job::kill_groups(int signal, bool only_running) {
  for (const auto& worker : workers_) {
    if (worker.is_running || !only_running) kill(-worker.pid, signal);
  }
}

void Job::drain() {
  // What was printed is in the pipes. Only a process that left its group could still hold one open.
  const auto deadline = steady_clock::now() + std::chrono::seconds(1);
  for (const auto& worker : workers_) {
    for (const auto& stream : worker.streams) {
      while (stream->is_open()) {
        pollfd ready{stream->fd(), POLLIN, 0};
        const int n = ::poll(&ready, 1, poll_timeout(deadline));
        if (n == 0) break;
        if (n > 0) stream->read_some();
        if (stream->console() && stream->console()->is_full())
          (stream->console() == &out_ ? out_ : err_).flush(deadline);
      }
    }
  }
}

std::vector<std::string> last_lines_of_file(const std::string& path) {
  std::ifstream file(path);
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
    if (lines.size() > WorkerStream::lines_kept) lines.pop_front();
  }
  return {lines.begin(), lines.end()};
}

int Job::conclude() {
  kill_groups(SIGKILL, false);
  drain();
  std::vector<WorkerFailure> failures;
  for (const auto& worker : workers_) {
    auto failure = find_failure(worker.rank, worker.pid, worker.end, worker.error_file);
    if (!failure) continue;
    if (worker.error_stream) {
      const auto& lines = worker.error_stream->last_lines();
      failure->last_lines.assign(lines.begin(), lines.end());
    } else if (!worker.stderr_log.empty()) {
      failure->last_lines = last_lines_of_file(worker.stderr_log);
    }
    failures.push_back(std::move(*failure));
  }
  int code = 0;
  if (has_failed_) {
    sort_by_cause(failures);
    err_.add(explain(failures, std::chrono::duration<double>(steady_clock::now() - start_).count()));
    code = failures.front().exit_code();
  } else if (stopped_by_) {
    err_.add("tandemrun: stopped by " + signal_name(stopped_by_) + "\n");
    code = 128 + stopped_by_;
  }
  const auto deadline = steady_clock::now() + std::chrono::seconds(2);
  out_.flush(deadline);
  err_.flush(deadline);
  return code;
}

}  // namespace

StreamChoice parse_stream_choice(const std::string& option, const std::string& text) {
  const auto digit = [&](const std::string& part) {
    TANDEM_CHECK(part.size() == 1 && part[0] >= '0' && part[0] <= '3', option, " ", text,
                 ": expected 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or by local rank 0:1,1:2");
    return part[0] - '0';
  };
  StreamChoice choice;
  if (text.find(':') == std::string::npos) {
    choice.otherwise = digit(text);
    return choice;
  }
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto colon = part.find(':');
    const auto rank = part.substr(0, colon);
    const bool is_number =
        !rank.empty() && rank.size() < 6 && rank.find_first_not_of("0123456789") == std::string::npos;
    choice.by_local_rank[is_number ? std::stoi(rank) : -1] =
        digit(is_number && colon != std::string::npos ? part.substr(colon + 1) : "");
  }
  return choice;
}

int launch(const LaunchOptions& options, const std::vector<std::string>& command) {
  TANDEM_CHECK(!command.empty(), "launcher: no program to run");
  TANDEM_CHECK(options.processes > 0, "launcher: ", options.processes,
               " processes asked for, at least 1 is needed");
  // Were one of these closed, the next file opened would take its place and be written to.
  for (int fd = 0; fd < 3; ++fd) {
    if (fcntl(fd, F_GETFD) < 0) ::open("/dev/null", O_RDWR);
  }
  Job job(options, command);
  return job.run();
}

}  // namespace tandem::distributed
