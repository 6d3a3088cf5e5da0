// WorkerGroup: runs the ranks of one node in one generation, from their start until all their output has been read.
#pragma once

#include <tandem/core/base/deadline.h>
#include <tandem/distributed/launch/launch_options.h>
#include <tandem/distributed/launch/log_folder.h>
#include <tandem/distributed/launch/worker_failure.h>
#include <tandem/distributed/launch/worker_output.h>
#include <tandem/distributed/launch/worker_process.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tandem::distributed {

// Only the thread that constructs the group may use it. The kernel kills the processes when that thread ends.
class WorkerGroup {
 public:
  using Time = Deadline;

  // The ranks of the processes, and their environment variables.
  struct LocalRanks {
    int generation = 0;
    int first_rank = 0;
    // Environment variables for all ranks, by name. The group adds RANK and the other variables that differ between
    // ranks.
    std::map<std::string, std::string> variables;
    int first_role_rank = 0;
  };

  // Starts options.processes processes, or fewer if `is_interrupted` returns true in the meantime. Their output goes to
  // `out` and `err`. Throws an Error if a process can't be started.
  WorkerGroup(const LaunchOptions& options, const std::vector<std::string>& program, const LocalRanks& ranks,
              const LogFolder& logs, OutputQueue& out, OutputQueue& err, const std::function<bool()>& is_interrupted);
  // Kills the processes that are still running, and their descendants in the same Unix process groups.
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  bool is_running() const;
  bool has_failed() const { return has_failed_; }  // whether a rank failed without having been told to stop
  bool is_stopping() const { return is_stopping_; }
  bool has_killed() const { return has_killed_; }

  // Returns the open streams whose output the console can accept now. The caller polls them and then reads.
  std::vector<WorkerStream*> readable() const;
  // Sends `signal` now, and SIGKILL after options.grace, or earlier if a previous call set an earlier time.
  void stop(int signal);
  // Sends `signal` to the running processes. It is not a request to end.
  void forward(int signal) { send(sent_ = signal, true); }
  // Sends SIGKILL now. If it is called again, and a process has not ended after the first SIGKILL, it throws an Error.
  void kill_running();
  // Returns the next time at which act_on_time() has work to do, or Time::max().
  Time next() const { return std::min(stop_at_, kill_at_); }
  // Notices which processes have ended, and stops or kills the others if it is time. Call it after SIGCHLD and, because
  // the end of a process that lost its leader causes no signal, every second.
  void act_on_time();

  // Returns the failures of this node's ranks, the cause first. Reads the ranks' remaining output. REQUIRES:
  // !is_running().
  std::vector<WorkerFailure> failures();
  // Returns the ranks that exited with 0 without having been told to stop.
  std::vector<int> ended_well() const;

 private:
  struct Worker {
    int local_rank = 0;
    int rank = 0;
    int restarts = 0;  // how often this rank was started before, alone
    pid_t pid = -1;
    bool is_running = true;
    bool is_survived = false;      // it failed, and the others went on
    bool has_lost_leader = false;  // a signal ended the process itself, and others of its group go on
    std::string error_file;
    // The files to which the worker itself writes its stdout and stderr, instead of pipes to the launcher. May be
    // empty.
    std::string stdout_log, stderr_log;
    std::vector<std::unique_ptr<WorkerStream>> streams;
    WorkerStream* error_stream = nullptr;  // the element of `streams` for stderr, or null
    WorkerEnd end;                         // valid once is_running is false
    std::string hint;                      // as in WorkerFailure
  };

  Worker start(const std::vector<std::string>& program, const std::string& path, const LocalRanks& ranks,
               const LogFolder& logs, int local_rank, int restarts);
  WorkerStream* connect(Worker& worker, int fd, const std::string& folder, FileDescriptor& theirs);
  bool shows(int local_rank, int fd) const;
  void end_all();
  // Sends `signal` to the Unix process groups of all ranks, or only of the running ranks.
  void send(int signal, bool only_running);
  // Records which processes have ended. The group stops 200 ms after the first failure, so other ranks can still fail
  // by themselves and report that.
  void notice_ends();
  // With elastic_restarts: starts the rank of a failed worker again, if it may restart.
  void replace(Worker& worker);
  void drain();

  const LaunchOptions& options_;
  OutputQueue& out_;
  OutputQueue& err_;
  const MemoryWatch memory_;
  // Every WorkerGroup has its own Guardian. A guardian remembers the numbers of Unix process groups, and the system
  // later reuses these numbers for other processes.
  std::unique_ptr<Guardian> guardian_;
  std::deque<Worker> workers_;  // a deque, because replace() adds workers while others are in use
  std::function<Worker(int local_rank, int restarts)> start_again_;

  bool has_failed_ = false;
  bool is_stopping_ = false;
  bool has_killed_ = false;
  int sent_ = 0;                // the latest signal that stop() or forward() sent
  Time stop_at_ = Time::max();  // when to send SIGTERM
  Time kill_at_ = Time::max();  // when to send SIGKILL
  Time left_over_since_;        // when a rank was last seen to run that is not suspended
};

}  // namespace tandem::distributed
