// WorkerGroup: the ranks of one node in one attempt, from their start to the last word of each.
#pragma once

#include <tandem/distributed/launch/launch_options.h>
#include <tandem/distributed/launch/log_folder.h>
#include <tandem/distributed/launch/worker_failure.h>
#include <tandem/distributed/launch/worker_output.h>
#include <tandem/distributed/launch/worker_process.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tandem::distributed {

// For one thread: the one it was made on, with which its processes die.
class WorkerGroup {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // What the processes of an attempt are told, and where they are.
  struct Share {
    int attempt = 0;
    int first_rank = 0;
    // "NAME=value" for all ranks; those with a name of their own, by local rank, on top.
    std::map<std::string, std::string> variables;
    int first_role_rank = 0;
  };

  // Starts options.processes processes, or fewer once `is_interrupted` says so. `out` and `err` are where their output
  // goes. Error when one cannot be started.
  WorkerGroup(const LaunchOptions& options, const std::vector<std::string>& program, const Share& share,
              const LogFolder& logs, OutputQueue& out, OutputQueue& err, const std::function<bool()>& is_interrupted);
  // Kills what still runs, children's children too.
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  bool is_running() const;
  bool has_failed() const { return has_failed_; }  // a rank did, without having been told to stop
  bool is_stopping() const { return is_stopping_; }
  bool has_killed() const { return has_killed_; }

  // Open streams whose output can be taken now. To be polled, then read.
  std::vector<WorkerStream*> readable() const;
  // To be called after SIGCHLD. A failure makes the group stop, after a moment in which others may fail too.
  void notice_ends();
  // Sends `signal` now, and SIGKILL after the grace, or earlier where that was promised before.
  void stop(int signal);
  // SIGKILL now. Error when processes do not end even so.
  void kill_running();
  // When act_on_time() has something to do; Time::max(): never.
  Time next() const { return std::min(stop_at_, kill_at_); }
  void act_on_time();

  // The failures of ranks, the cause first. REQUIRES: !is_running(). Reads what they had printed.
  std::vector<WorkerFailure> failures();
  // Ranks that ended well, without having been told to stop.
  std::vector<int> ended_well() const;

 private:
  struct Worker {
    int local_rank = 0;
    int rank = 0;
    pid_t pid = -1;
    bool is_running = true;
    std::string error_file;
    std::string stderr_log;  // where its stderr went instead of to us, if it did
    std::vector<std::unique_ptr<WorkerStream>> streams;
    WorkerStream* error_stream = nullptr;
    WorkerEnd end;
    std::string hint;
  };

  Worker start(const std::vector<std::string>& program, const std::string& path, const Share& share,
               const LogFolder& logs, int local_rank);
  WorkerStream* connect(Worker& worker, int fd, const std::string& folder, FileDescriptor& theirs);
  void end_all();
  void kill_groups(int signal, bool only_running);
  void drain();

  const LaunchOptions& options_;
  OutputQueue& out_;
  OutputQueue& err_;
  const MemoryWatch memory_;
  // One for each group: what it was told to kill is a number that the system will give to others later.
  std::unique_ptr<Guardian> guardian_;
  std::vector<Worker> workers_;

  bool has_failed_ = false;
  bool is_stopping_ = false;
  bool has_killed_ = false;
  Time stop_at_ = Time::max();  // when SIGTERM goes out
  Time kill_at_ = Time::max();  // when SIGKILL goes out
};

}  // namespace tandem::distributed
