// StopRequest: ends a training early because of a signal or a time limit.
#pragma once

#include <tandem/distributed/groups/process_group.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tandem::distributed {

// A training throws this on every rank when a signal has ended it. TrainingOptions::run() turns it into the exit code.
// It is not an Error, because nothing went wrong.
struct StoppedBySignal : std::exception {
  explicit StoppedBySignal(int number) : signal(number) {}
  const char* what() const noexcept override { return "stopped by a signal"; }
  int signal;
};

// While a StopRequest lives, SIGTERM, SIGINT, SIGHUP (the terminal was closed) and SIGUSR1 do not end the process. They
// are requests, and poll() reports them on all ranks. Two signals within one second count as one, because a terminal
// and a launcher may both send a signal. A second signal after that ends the process at once.
//
// A launcher waits no longer than its grace time, which it passes in TANDEM_GRACE (seconds). If no step ends within
// that time, rank 0 prints the last checkpoint and a sufficient grace time, and ends.
//
// Only one StopRequest at a time in a process may handle signals.
class StopRequest {
 public:
  struct Options {
    bool takes_signals = false;
    std::optional<std::chrono::duration<double>> max_time;  // counted from construction, by rank 0's clock
    Device device;                                          // a device on which the group's arrays may be
  };
  StopRequest(ProcessGroup& group, const Options& options);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // Lets SIGUSR1 wait for a StopRequest that handles signals. Without it, a SIGUSR1 that arrives earlier, while the
  // ranks connect or read their data, kills the process. The other signals do so, because nothing is lost by then.
  static void expect();

  struct Reason {
    int signal = 0;
    bool time_is_up = false;
    bool is_written = false;  // whether no rank is writing a checkpoint; not a reason to stop
    explicit operator bool() const { return signal != 0 || time_is_up; }
  };
  // All ranks must call it after each optimizer step. It returns the same on all ranks, so they stop after the same
  // step. The ranks communicate about ten times a second, not after each step. All ranks also learn whether one of
  // them is still writing a checkpoint, as `is_writing` says.
  Reason poll(bool is_writing = false);

  // Stores which checkpoint is being written, and that it is written, for the message.
  void saving(const std::string& path);
  void saved();

 private:
  Reason mine(bool is_writing) const;
  void watch_grace(const std::stop_token& stop, std::chrono::duration<double> grace);

  ProcessGroup& group_;
  const Options options_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::int64_t stride_ = 1;  // steps from one question to the next
  std::int64_t left_ = 1;    // steps until the next question
  std::chrono::steady_clock::time_point asked_ = start_;

  std::vector<std::pair<int, struct sigaction>> previous_;

  std::mutex mutex_;
  std::string checkpoint_;                                    // guarded by mutex_
  std::string next_checkpoint_;                               // guarded by mutex_; empty: none is being written
  std::chrono::steady_clock::time_point saving_since_;        // guarded by mutex_
  std::chrono::duration<double> longest_step_{};              // guarded by mutex_
  std::chrono::steady_clock::time_point last_step_ = start_;  // guarded by mutex_
  std::jthread watcher_;                                      // rank 0's, under a launcher with a grace time
};

}  // namespace tandem::distributed
