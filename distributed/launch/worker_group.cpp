#include <tandem/core/base/check.h>
#include <tandem/core/base/deadline.h>
#include <tandem/distributed/launch/job_assignment.h>
#include <tandem/distributed/launch/worker_group.h>
#include <tandem/distributed/system/cores.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <fstream>
#include <utility>

extern char** environ;

namespace tandem::distributed {
namespace {

FileDescriptor open_file(const std::string& path, int flags) {
  FileDescriptor file(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  TANDEM_CHECK(file.is_open(), "cannot open ", path, ": ", errno_text());
  return file;
}

bool is_pipe(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& ours) {
  std::vector<std::string> result;
  for (char** variable = environ; *variable; ++variable) {
    const std::string text = *variable;
    if (!ours.count(text.substr(0, text.find('=')))) result.push_back(text);
  }
  for (const auto& [name, value] : ours) result.push_back(name + "=" + value);
  return result;
}

// Returns why no more bytes can be written to `path`, for example because the disk is full, or an empty string if they
// can. The function tries it with one byte, which it then removes.
std::string write_error(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!file.is_open()) return errno_text();
  const auto size = ::lseek(file.get(), 0, SEEK_END);
  if (::write(file.get(), "\n", 1) != 1) return errno_text();
  return size >= 0 && ::ftruncate(file.get(), size) == 0 ? "" : errno_text();
}

// Returns the state and the Unix process group of a process, or {0, 0} if there is no such process. /proc/PID/stat is
// "PID (NAME) STATE PARENT GROUP ..." (proc(5)).
std::pair<char, pid_t> state_and_group(const std::filesystem::path& process) {
  std::ifstream file(process / "stat");
  std::string text;
  std::getline(file, text);
  std::pair<char, pid_t> result;
  const auto name_end = text.rfind(") ");
  if (name_end != std::string::npos) std::sscanf(text.c_str() + name_end, ") %c %*d %d", &result.first, &result.second);
  return result;
}

// Returns whether a process waits for SIGCONT.
bool is_stopped(pid_t pid) { return (state_and_group("/proc/" + std::to_string(pid)).first | 32) == 't'; }

// Returns whether a Unix process group has a process that has not ended.
bool has_processes(pid_t group) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const auto [state, its_group] = state_and_group(entry.path());
    if (its_group == group && state != 'Z' && state != 'X') return true;
  }
  return false;
}

std::vector<std::string> last_lines_of_file(const std::string& path) {
  constexpr std::streamoff most_read = 1 << 16;
  std::ifstream file(path, std::ios::ate);
  file.seekg(std::max<std::streamoff>(0, file.tellg() - most_read));
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line.substr(0, WorkerStream::line_bytes_kept));
    if (lines.size() > WorkerStream::lines_kept) lines.pop_front();
  }
  return {lines.begin(), lines.end()};
}

}  // namespace

WorkerGroup::WorkerGroup(const LaunchOptions& options, const std::vector<std::string>& program, const LocalRanks& ranks,
                         const LogFolder& logs, OutputQueue& out, OutputQueue& err,
                         const std::function<bool()>& is_interrupted)
    : options_(options), out_(out), err_(err), guardian_(std::make_unique<Guardian>(logs.temporary().string())) {
  const auto path = find_program(program.front());
  start_again_ = [this, &program, path, ranks, &logs](int local_rank, int restarts) {
    return start(program, path, ranks, logs, local_rank, restarts);
  };
  try {
    for (int i = 0; i < options.processes && !is_interrupted(); ++i) workers_.push_back(start_again_(i, 0));
  } catch (...) {
    end_all();
    throw;
  }
}

WorkerGroup::~WorkerGroup() { end_all(); }

void WorkerGroup::end_all() {
  // The workers have not been reaped yet, so no other process can have their process IDs.
  send(SIGKILL, false);
  guardian_.reset();
  for (const auto& worker : workers_) {
    // If a process has not ended after SIGKILL, the group has already waited for it in vain. Do not block on it again.
    const int how = has_killed_ && worker.is_running ? WNOHANG : 0;
    while (waitpid(worker.pid, nullptr, how) < 0 && errno == EINTR) {
    }
  }
}

// Returns whether this rank's output to `fd` appears on this launcher's console.
bool WorkerGroup::shows(int local_rank, int fd) const {
  const int bit = fd == STDOUT_FILENO ? 1 : 2;
  const bool is_chosen = !options_.shown_local_ranks || options_.shown_local_ranks->contains(local_rank);
  return is_chosen && ((options_.tee.of(local_rank) & bit) || !(options_.redirects.of(local_rank) & bit));
}

// Decides where the worker's stdout or stderr goes. Opens the worker's end in `theirs`, and the launcher's reading end
// if there is one.
WorkerStream* WorkerGroup::connect(Worker& worker, int fd, const std::string& folder, FileDescriptor& theirs) {
  const int bit = fd == STDOUT_FILENO ? 1 : 2;
  const auto log_path = folder + (fd == STDOUT_FILENO ? "/stdout.log" : "/stderr.log");
  const bool tees = options_.tee.of(worker.local_rank) & bit;
  if (!tees && (options_.redirects.of(worker.local_rank) & bit)) {
    theirs = open_file(log_path, O_WRONLY | O_CREAT | O_APPEND);
    (fd == STDOUT_FILENO ? worker.stdout_log : worker.stderr_log) = log_path;
    return nullptr;
  }
  const bool is_shown = shows(worker.local_rank, fd);
  // Rank 0 inherits the launcher's terminal or file, but not a pipe: if the reader of the pipe ended, SIGPIPE would end
  // rank 0.
  if (worker.rank == 0 && is_shown && !tees && !is_pipe(fd)) return nullptr;
  int ends[2];
  TANDEM_CHECK(pipe2(ends, O_CLOEXEC) == 0, "launcher: cannot make a pipe: ", errno_text());
  FileDescriptor ours(ends[0]);
  theirs = FileDescriptor(ends[1]);
  OutputQueue* console = !is_shown ? nullptr : fd == STDOUT_FILENO ? &out_ : &err_;
  auto prefix = worker.rank == 0 ? "" : "[rank" + std::to_string(worker.rank) + "] ";
  auto log = tees ? open_file(log_path, O_WRONLY | O_CREAT | O_APPEND) : FileDescriptor();
  worker.streams.push_back(std::make_unique<WorkerStream>(std::move(ours), console, std::move(prefix), std::move(log),
                                                          tees ? log_path : ""));
  return worker.streams.back().get();
}

WorkerGroup::Worker WorkerGroup::start(const std::vector<std::string>& program, const std::string& path,
                                       const LocalRanks& ranks, const LogFolder& logs, int local_rank, int restarts) {
  Worker worker;
  worker.local_rank = local_rank;
  worker.restarts = restarts;
  worker.rank = ranks.first_rank + local_rank;
  const auto folder = logs.of(ranks.generation, worker.rank).string();
  worker.error_file = folder + "/error.json";
  auto variables = ranks.variables;
  if (restarts > 0) {
    worker.error_file = folder + "/error_" + std::to_string(restarts) + ".json";
    variables["TORCHELASTIC_RESTART_COUNT"] = std::to_string(restarts);
  }
  ::unlink(worker.error_file.c_str());  // of an earlier job
  variables["RANK"] = std::to_string(worker.rank);
  variables["LOCAL_RANK"] = std::to_string(local_rank);
  variables["ROLE_RANK"] = std::to_string(ranks.first_role_rank + local_rank);
  variables["TORCHELASTIC_ERROR_FILE"] = worker.error_file;
  WorkerCommand command;
  command.path = path;
  command.arguments = program;
  command.environment = merged_environment(variables);
  if (worker.rank != 0) command.input = open_file("/dev/null", O_RDONLY);
  connect(worker, STDOUT_FILENO, folder, command.output);
  worker.error_stream = connect(worker, STDERR_FILENO, folder, command.error);
  if (options_.bind_cores) command.cores = core_share(local_rank, options_.processes);
  worker.pid = start_worker(command, *guardian_);
  return worker;
}

bool WorkerGroup::is_running() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.is_running; });
}

std::vector<WorkerStream*> WorkerGroup::readable() const {
  std::vector<WorkerStream*> result;
  for (const auto& worker : workers_) {
    for (const auto& stream : worker.streams) {
      // While a console is full, the launcher does not read output for it. A rank that continues to print then has to
      // wait as soon as its pipe is also full.
      if (stream->is_open() && !(stream->console() && stream->console()->is_full())) result.push_back(stream.get());
    }
  }
  return result;
}

void WorkerGroup::notice_ends() {
  std::vector<Worker*> failed;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    auto& worker = workers_[i];
    if (!worker.is_running) continue;
    siginfo_t info{};
    // With WNOWAIT, the process stays a zombie until the worker group is destroyed. Its pid is also the number of its
    // Unix process group, which may still get signals.
    if (waitid(P_PID, static_cast<id_t>(worker.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
      continue;
    // A wrapper such as a shell script ends at once at a signal that its process group got. Its program may be saving.
    if (info.si_code != CLD_EXITED && info.si_status == sent_ && !has_killed_ && has_processes(worker.pid)) {
      worker.has_lost_leader = true;
      continue;
    }
    worker.is_running = false;
    worker.end = {info.si_code == CLD_EXITED, info.si_status, is_stopping_, std::chrono::system_clock::now()};
    // The status of its program is unknown, but a program that failed has reported that.
    const WorkerEnd if_reported{true, 1, true, worker.end.seen};
    if (worker.has_lost_leader)
      worker.end = {true, find_failure(worker.rank, worker.pid, if_reported, worker.error_file) ? 1 : 0, is_stopping_,
                    worker.end.seen};
    if (!worker.end.has_failed() || is_stopping_) continue;
    if (!worker.end.has_exited && worker.end.status == SIGKILL) worker.hint = memory_.hint();
    failed.push_back(&worker);
  }
  // Ranks that fail together should all report that before the launcher tells them to stop. 200 ms is long for failures
  // with the same cause (an error on all ranks, or a lost connection that all peers notice), and short for a user. At
  // the end of an elastic job, the others may be saving, and are not stopped.
  for (Worker* worker : failed) {
    if (options_.elastic_restarts && is_running() && ended_well().empty()) replace(*worker);
    else if (!std::exchange(has_failed_, true) && (!options_.elastic_restarts || ended_well().empty()))
      stop_at_ = RunningTime::now() + std::chrono::milliseconds(200);
  }
}

void WorkerGroup::replace(Worker& worker) {
  worker.is_survived = true;
  kill(-worker.pid, SIGKILL);  // its descendants
  const bool is_usage = worker.end.has_exited && worker.end.status == usage_exit_code;
  const bool restarts = worker.restarts < *options_.elastic_restarts && !is_usage;
  err_.add("tandemrun: rank " + std::to_string(worker.rank) + " (pid " + std::to_string(worker.pid) +
           ") failed: " + describe_end(worker.end, worker.hint) + "; the others continue" +
           (restarts ? ", and it starts again: restart " + std::to_string(worker.restarts + 1) + " of " +
                           std::to_string(*options_.elastic_restarts)
                     : " without it") +
           "\n");
  try {
    if (restarts) workers_.push_back(start_again_(worker.local_rank, worker.restarts + 1));
  } catch (const std::exception& error) {
    err_.add("tandemrun: the others continue without rank " + std::to_string(worker.rank) +
             ", which can't start again: " + error.what() + "\n");
  }
}

void WorkerGroup::stop(int signal) {
  is_stopping_ = true;
  stop_at_ = Time::max();
  kill_at_ = std::min(kill_at_, RunningTime::now() + options_.grace);
  forward(signal);
}

void WorkerGroup::kill_running() {
  // The system can't end a process that waits inside the kernel, for example for a file server. After SIGKILL, 30 s
  // should be enough to free a large memory and to close a GPU. A process that takes longer may never end.
  constexpr auto patience = std::chrono::seconds(30);
  for (const auto& worker : workers_) {
    TANDEM_CHECK(!has_killed_ || !worker.is_running, "rank ", worker.rank, " (pid ", worker.pid,
                 ") has not ended even after SIGKILL; it is left behind");
  }
  is_stopping_ = true;
  has_killed_ = true;
  kill_at_ = RunningTime::now() + patience;
  send(SIGKILL, true);
}

void WorkerGroup::act_on_time() {
  notice_ends();
  const auto now = RunningTime::now();
  // An elastic job continues without a rank that is suspended. At its end, nothing resumes that rank. If a rank is gone
  // for good before the end, its peers may be the ones that are suspended.
  const auto running = std::ranges::count_if(workers_, &Worker::is_running);
  const bool is_left_over = options_.elastic_restarts && !has_killed_ && running > 0 && running < options_.processes &&
                            std::ranges::all_of(workers_, [](auto& w) { return !w.is_running || is_stopped(w.pid); });
  if (!is_left_over) left_over_since_ = now;
  if (is_left_over && (!ended_well().empty() || now - left_over_since_ > 2 * options_.silence_allowed)) {
    err_.add("tandemrun: only suspended ranks are left, and are killed\n");
    has_failed_ = has_failed_ || ended_well().empty();
    kill_running();
  }
  if (now >= stop_at_) stop(SIGTERM);
  if (now < kill_at_) return;
  for (const auto& worker : workers_) {
    if (worker.is_running && !has_killed_)
      err_.add("tandemrun: rank " + std::to_string(worker.rank) + " (pid " + std::to_string(worker.pid) +
               ") did not end within the grace time" + (is_stopped(worker.pid) ? " because it is suspended" : "") +
               ", and is killed\n");
  }
  kill_running();
}

void WorkerGroup::send(int signal, bool only_running) {
  for (const auto& worker : workers_) {
    if (worker.is_running || !only_running) kill(-worker.pid, signal);
  }
}

void WorkerGroup::drain() {
  // The pipes contain the last output of the ranks. A process that left its Unix process group could keep a pipe open
  // forever, so the wait for the end of the streams is limited. 1 s is far more than reading full pipes takes.
  const auto deadline = RunningTime::now() + std::chrono::seconds(1);
  for (const auto& worker : workers_) {
    for (const auto& stream : worker.streams) {
      while (stream->is_open()) {
        pollfd ready{stream->fd(), POLLIN, 0};
        if (!poll_until(&ready, 1, deadline)) break;
        stream->read_some();
        if (stream->console() && stream->console()->is_full())
          (stream->console() == &out_ ? out_ : err_).flush(deadline);
      }
    }
  }
}

std::vector<WorkerFailure> WorkerGroup::failures() {
  send(SIGKILL, false);
  drain();
  std::vector<WorkerFailure> failures;
  for (const auto& worker : workers_) {
    if (worker.is_survived && !ended_well().empty()) continue;  // the training reached its end without it
    auto failure = find_failure(worker.rank, worker.pid, worker.end, worker.error_file);
    if (!failure) continue;
    failure->hint = worker.hint;
    failure->is_shown = failure->is_printed && shows(worker.local_rank, STDERR_FILENO);
    if (worker.error_stream) {
      const auto& lines = worker.error_stream->last_lines();
      failure->last_lines.assign(lines.begin(), lines.end());
    } else if (!worker.stderr_log.empty()) {
      failure->last_lines = last_lines_of_file(worker.stderr_log);
    }
    for (const auto& log : {worker.stdout_log, worker.stderr_log}) {
      const auto reason = log.empty() ? "" : write_error(log);
      if (!reason.empty()) err_.add("tandemrun: the log file " + log + " cannot be written: " + reason + "\n");
    }
    failures.push_back(std::move(*failure));
  }
  sort_by_cause(failures);
  return failures;
}

std::vector<int> WorkerGroup::ended_well() const {
  std::vector<int> ranks;
  for (const auto& worker : workers_) {
    if (!worker.is_running && !worker.end.has_failed() && !worker.end.was_stopping) ranks.push_back(worker.rank);
  }
  return ranks;
}

}  // namespace tandem::distributed
