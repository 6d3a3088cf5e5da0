#include <tandem/core/base/check.h>
#include <tandem/core/base/standard_output.h>
#include <tandem/distributed/job/store_token.h>
#include <tandem/distributed/launch/job_assignment.h>
#include <tandem/distributed/launch/launcher.h>
#include <tandem/distributed/launch/log_folder.h>
#include <tandem/distributed/launch/node_rendezvous.h>
#include <tandem/distributed/launch/worker_failure.h>
#include <tandem/distributed/launch/worker_group.h>
#include <tandem/distributed/launch/worker_output.h>
#include <tandem/distributed/system/cores.h>
#include <tandem/distributed/system/host_identity.h>
#include <tandem/distributed/system/random_text.h>
#include <tandem/distributed/system/signal_name.h>
#include <tandem/distributed/system/socket.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>

namespace tandem::distributed {
namespace {

using std::chrono::steady_clock;
using State = NodeStatus::State;
using Action = JobAssignment::Action;

LaunchOptions with_run_id(LaunchOptions options) {
  if (options.run_id.empty()) options.run_id = options.max_nodes == 1 ? random_text(2) : "none";
  return options;
}

// Returns the job's token. Several launchers must use the same token: the user sets it, or they compute it from a
// secret on their host.
std::string job_token(const LaunchOptions& options) {
  if (options.open_store) return "";
  if (options.max_nodes == 1) return random_text(4);
  const auto given = given_token();
  if (!given.empty()) return given;
  if (!is_loopback(options.master_addr)) fail_without_token();
  return host_token("run " + options.run_id + " at port " + std::to_string(options.master_port));
}

NodeStatus first_status(const LaunchOptions& options) {
  NodeStatus status;
  status.node_rank = options.node_rank.value_or(-1);
  status.host = host_name();
  status.pid = getpid();
  status.processes = options.processes;
  status.role = options.role;
  status.max_nodes = options.max_nodes;
  return status;
}

// This host's part in the job. A Node reports the state of this host's ranks, and follows the assignment.
class Node {
 public:
  Node(const LaunchOptions& options, const std::vector<std::string>& program);
  int run();

 private:
  void poll_once();
  void follow(const JobAssignment& assignment);
  void start(const JobAssignment& assignment);
  void finish_group();
  void leave();
  void explain_restart(const JobAssignment& assignment);
  int conclude(const JobAssignment& assignment);
  void explain_failures(const std::vector<WorkerFailure>& failures, const std::vector<int>& ended_early);
  void act_on(int signal);
  void pause();
  void copy_flight();
  void warn_once();
  std::map<std::string, std::string> variables(const JobAssignment& assignment, int node) const;
  void say(const std::string& line) { err_.add("tandemrun: " + line + "\n"); }
  double seconds() const { return std::chrono::duration<double>(steady_clock::now() - start_).count(); }

  const LaunchOptions options_;
  const std::vector<std::string>& program_;
  const std::string token_;
  const int cores_ = available_cores();
  const steady_clock::time_point start_ = steady_clock::now();
  SignalPipe signals_;  // before logs_: until that folder is removed, a signal must not end this process
  LogFolder logs_;
  OutputQueue out_{STDOUT_FILENO};
  OutputQueue err_{STDERR_FILENO};
  NodeStatus status_;
  std::unique_ptr<NodeRendezvous> rendezvous_;
  std::unique_ptr<WorkerGroup> group_;

  std::optional<JobAssignment> end_;  // the assignment that ended the job
  int stopped_by_ = 0;                // the signal that stopped this launcher; 0: none
  steady_clock::time_point stopped_at_;
  std::set<pid_t> shown_;  // the ranks of this node whose error this console already shows
  bool has_warned_ = false;
  int explained_ = 0;  // the latest generation whose restart has been explained
};

Node::Node(const LaunchOptions& options, const std::vector<std::string>& program)
    : options_(with_run_id(options)),
      program_(program),
      token_(job_token(options_)),
      logs_(options_.log_dir, options_.run_id, options_.redirects.is_any() || options_.tee.is_any()),
      status_(first_status(options_)) {
  find_program(program.front());  // if the program is missing, fail before other nodes wait for this node
  rendezvous_ = make_node_rendezvous(options_, token_, status_);
  if (options_.max_nodes > 1)
    say("host " + status_.host + " meets the other nodes at " +
        endpoint_name(options_.master_addr, options_.master_port));
}

std::map<std::string, std::string> Node::variables(const JobAssignment& assignment, int node) const {
  const auto& ranks = assignment.nodes[static_cast<std::size_t>(node)];
  std::map<std::string, std::string> ours = {
      {"GROUP_RANK", std::to_string(node)},
      {"GROUP_WORLD_SIZE", std::to_string(assignment.nodes.size())},
      {"WORLD_SIZE", std::to_string(assignment.world_size())},
      {"LOCAL_WORLD_SIZE", std::to_string(options_.processes)},
      {"ROLE_NAME", options_.role},
      {"ROLE_WORLD_SIZE", std::to_string(ranks.role_size)},
      {"MASTER_ADDR", options_.master_addr},
      {"MASTER_PORT", std::to_string(rendezvous_->port())},
      {"TORCHELASTIC_RESTART_COUNT", std::to_string(assignment.generation)},
      {"TORCHELASTIC_MAX_RESTARTS", std::to_string(options_.max_restarts)},
      {"TORCHELASTIC_RUN_ID", options_.run_id},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"TANDEM_STORE_TOKEN", token_},
      {"TANDEM_STORE_TOKEN_FILE", ""},
      {"TANDEM_LAUNCHER", "tandemrun"},
      {"TANDEM_ELASTIC", options_.elastic_restarts ? "1" : ""},
  };
  if (!std::getenv("OMP_NUM_THREADS")) {
    ours["OMP_NUM_THREADS"] = std::to_string(std::max(1, cores_ / options_.processes));
    ours["TANDEM_DEFAULT_THREADS"] = ours["OMP_NUM_THREADS"];  // marks the number as not chosen by the user
  }
  // Waiting threads of GCC's OpenMP spin for 4 ms by default. While other programs kept the cores busy, two threads
  // took up to 16 times as long as one thread. With this number, they took 1.5 times as long, and it has no cost on
  // idle cores (MNIST on two cores of an AMD EPYC).
  if (!std::getenv("GOMP_SPINCOUNT") && !std::getenv("OMP_WAIT_POLICY")) ours["GOMP_SPINCOUNT"] = "10000";
  // Debian's Gloo loads UCX, which prints 15 lines of addresses when a rank crashes. They hid the rank's own message.
  if (!std::getenv("UCX_HANDLE_ERRORS")) ours["UCX_HANDLE_ERRORS"] = "none";
  return ours;
}

int Node::run() {
  try {
    while (!end_ && !(stopped_by_ && !group_)) {
      follow(rendezvous_->assignment());
      if (!end_) poll_once();
    }
  } catch (const Error&) {
    err_.flush(RunningTime::now() + std::chrono::seconds(2));
    leave();
    throw;
  }
  int code = 128 + stopped_by_;
  if (!stopped_by_) {
    code = conclude(*end_);
  } else if (status_.has_failed && !status_.failures.empty()) {  // a rank had failed before the signal arrived
    explain_failures(status_.failures, status_.ended_well);
    code = status_.failures.front().exit_code();
  } else {
    say("stopped by " + signal_name(stopped_by_));
  }
  status_.stopped_by = stopped_by_;
  // The reader of stdout or stderr may be stopped forever. A running reader reads the rest within 2 s.
  const auto deadline = RunningTime::now() + std::chrono::seconds(2);
  out_.flush(deadline);
  if (!out_.failure().empty()) {
    say("the ranks' output could not be written to standard output: " + out_.failure());
    if (code == 0) code = 1;
  }
  err_.flush(deadline);
  leave();
  return code;
}

void Node::leave() {
  status_.state = State::left;
  rendezvous_->report(status_);
  // After silence_allowed, every other node has left or counts as lost. The nodes get 5 s more to learn that from each
  // other.
  const auto deadline = RunningTime::now() + options_.silence_allowed + std::chrono::seconds(5);
  while (!rendezvous_->is_released() && RunningTime::now() < deadline) {
    pollfd signal{signals_.fd(), POLLIN, 0};
    ::poll(&signal, 1, static_cast<int>(std::min<std::int64_t>(options_.monitor_interval.count(), 100)));
    const auto signals = signals_.take();
    if (std::any_of(signals.begin(), signals.end(), SignalPipe::asks_to_stop)) return;
  }
}

void Node::follow(const JobAssignment& assignment) {
  const bool is_current = status_.generation == assignment.generation;
  switch (assignment.action) {
    case Action::run:
      if (!group_ && !stopped_by_ && status_.generation < assignment.generation &&
          assignment.node_of(rendezvous_->id()) >= 0)
        start(assignment);
      return;
    case Action::stop:
      if (group_ && !group_->is_stopping()) group_->stop(SIGTERM);
      if (!group_ && !is_current) {
        status_.generation = assignment.generation;  // this node has not started its ranks yet
        finish_group();
      }
      return;
    case Action::gather:
      explain_restart(assignment);
      if (group_ && !group_->is_stopping()) group_->stop(SIGTERM);
      if (!group_ && status_.state == State::ended) {
        status_.state = State::waiting;
        status_.has_failed = false;
        status_.failures.clear();
        status_.ended_well.clear();
        rendezvous_->report(status_);
      }
      return;
    case Action::done:
    case Action::failed:
      if (group_ && !group_->is_stopping()) group_->stop(SIGTERM);
      if (!group_) end_ = assignment;
      return;
  }
}

void Node::start(const JobAssignment& assignment) {
  const int node = assignment.node_of(rendezvous_->id());
  const auto& ranks = assignment.nodes[static_cast<std::size_t>(node)];
  status_.state = State::running;
  status_.generation = assignment.generation;
  WorkerGroup::LocalRanks local{assignment.generation, ranks.first_rank, variables(assignment, node),
                                ranks.first_role_rank};
  local.variables["TANDEM_GRACE"] = std::to_string(std::chrono::duration<double>(options_.grace).count());
  local.variables["TANDEM_FLIGHT_DIR"] = logs_.flight(assignment.generation).string();
  if (options_.max_nodes > 1) {
    const auto first = std::to_string(ranks.first_rank);
    const auto last = std::to_string(ranks.first_rank + ranks.processes - 1);
    say("node " + std::to_string(node) + " of " + std::to_string(assignment.nodes.size()) + " starts " +
        (first == last ? "rank " + first : "ranks " + first + " to " + last) + " of " +
        std::to_string(assignment.world_size()));
  }
  group_ = std::make_unique<WorkerGroup>(options_, program_, local, logs_, out_, err_,
                                         [this] { return signals_.has_request(); });
  rendezvous_->report(status_);
}

void Node::finish_group() {
  status_.state = State::ended;
  if (group_) {
    status_.failures = group_->failures();
    for (const auto& failure : status_.failures)
      if (failure.is_shown) shown_.insert(failure.pid);
    // The ranks of an elastic job end the training together.
    if (!options_.elastic_restarts) status_.ended_well = group_->ended_well();
    // If all ranks succeeded, or were stopped because another node's rank failed, this node has not failed.
    status_.has_failed = group_->has_failed();
  }
  group_.reset();
  rendezvous_->report(status_);
}

void Node::poll_once() {
  std::vector<pollfd> watched = {{signals_.fd(), POLLIN, 0}, {rendezvous_->fd(), POLLIN, 0}};
  std::vector<OutputQueue*> writers;
  for (auto* console : {&out_, &err_}) {
    if (!console->has_waiting()) continue;
    watched.push_back({console->fd(), POLLOUT, 0});
    writers.push_back(console);
  }
  const auto readers = group_ ? group_->readable() : std::vector<WorkerStream*>();
  for (const auto* reader : readers) watched.push_back({reader->fd(), POLLIN, 0});

  // Events end the wait. Without events, it ends after a second, because warn_once() and the worker group check what
  // causes no event.
  auto next = RunningTime::now() + std::chrono::seconds(1);
  if (group_) next = std::min(next, group_->next());
  poll_until(watched.data(), watched.size(), next);
  auto event = watched.begin() + 2;
  for (auto* writer : writers) {
    if ((event++)->revents) writer->write_some();
  }
  for (auto* reader : readers) {
    if ((event++)->revents) reader->read_some();
  }
  for (const int signal : signals_.take()) {
    if (SignalPipe::asks_to_stop(signal)) act_on(signal);
    else if (signal == SIGUSR2) copy_flight();
    else if (signal == SIGUSR1 && group_) group_->forward(signal);  // a training program saves and exits with 0
    else if (signal == SIGTSTP) pause();
  }
  if (group_) {
    group_->act_on_time();
    if (group_->has_failed() && group_->is_stopping() && !status_.has_failed) {
      status_.has_failed = true;
      rendezvous_->report(status_);
    }
    if (!group_->is_running()) finish_group();
  }
  warn_once();
}

void Node::act_on(int signal) {
  if (stopped_by_) {
    // The same request may arrive twice: once for this process, and once for its whole Unix process group, terminal or
    // batch job. timeout(1) sends both.
    const bool is_second = steady_clock::now() - stopped_at_ >= std::chrono::seconds(1);
    if (is_second && group_ && !group_->has_killed()) group_->kill_running();
    return;
  }
  stopped_by_ = signal;
  stopped_at_ = steady_clock::now();
  if (group_) group_->stop(signal);
}

// Handles Ctrl-Z: the ranks stop with the launcher, and continue with it. If they ran without the launcher, they would
// lose their store.
void Node::pause() {
  if (group_) group_->forward(SIGSTOP);
  ::raise(SIGSTOP);  // returns after SIGCONT
  if (group_) group_->forward(SIGCONT);
}

// The launcher copies the records itself, because a rank that is stuck or stopped could not.
void Node::copy_flight() {
  try {
    const auto folder = logs_.copy_flight();
    say(folder.empty() ? "the ranks have no flight records"
                       : "copied the ranks' flight records. To read them: " + std::string(program_invocation_name) +
                             " --explain " + folder.string());
  } catch (const std::exception& error) {
    say(error.what());
  }
}

void Node::explain_failures(const std::vector<WorkerFailure>& failures, const std::vector<int>& ended_early) {
  // Failures of all nodes, including this one, come from the store, which does not have is_shown.
  auto marked = failures;
  for (auto& failure : marked) failure.is_shown = failure.host == status_.host && shown_.contains(failure.pid);
  if (!marked.empty()) err_.add(explain(marked, ended_early, seconds()));
  const auto flight = logs_.keep_flight();
  if (!flight.empty())
    say("to see what the ranks did last, run: " + std::string(program_invocation_name) + " --explain " +
        flight.string());
}

void Node::warn_once() {
  if (has_warned_ || rendezvous_->refused_clients() == 0) return;
  has_warned_ = true;
  say("the store rejected a process without the job's token; Python's ranks need --open-store");
}

void Node::explain_restart(const JobAssignment& assignment) {
  if (assignment.generation <= explained_) return;
  explained_ = assignment.generation;
  if (!assignment.reason.empty()) say(assignment.reason);
  explain_failures(assignment.failures, assignment.ended_early);
  say("all ranks start again" + (assignment.restarts == 0 ? ""
                                                          : ": restart " + std::to_string(assignment.restarts) +
                                                                " of " + std::to_string(options_.max_restarts)));
}

int Node::conclude(const JobAssignment& assignment) {
  if (assignment.action == Action::done) {
    const bool had_part = status_.generation >= 0;
    if (!had_part) {
      say("the job ran and ended without this node: all of its " + std::to_string(assignment.nodes.size()) +
          " places were taken. Was this launcher started twice, or with the --node-rank of another node?");
    }
    // With --nnodes MIN:MAX, a node beyond MIN may never be needed. That is not a failure.
    return had_part || options_.min_nodes < options_.max_nodes ? 0 : 1;
  }
  if (!assignment.reason.empty()) say(assignment.reason);
  explain_failures(assignment.failures, assignment.ended_early);
  return assignment.exit_code;
}

}  // namespace

int launch(const LaunchOptions& options, const std::vector<std::string>& program) {
  TANDEM_CHECK(!program.empty(), "launcher: no program to run");
  TANDEM_CHECK(options.processes > 0, "launcher: ", options.processes, " processes requested, expected at least 1");
  TANDEM_CHECK(options.min_nodes > 0 && options.max_nodes >= options.min_nodes, "launcher: ", options.min_nodes, " to ",
               options.max_nodes, " nodes requested, expected at least 1");
  TANDEM_CHECK(options.max_nodes == 1 || !rendezvous_of_many_nodes.entries().empty(), "launcher: ", options.max_nodes,
               " nodes requested, but this build only starts jobs on one host");
  prepare_standard_streams();
  Node node(options, program);
  return node.run();
}

}  // namespace tandem::distributed
