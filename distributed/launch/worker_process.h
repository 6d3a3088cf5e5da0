// Starts processes so that none is left behind when the launcher ends.
#pragma once

#include <tandem/distributed/system/socket.h>

#include <sched.h>
#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::distributed {

// A process that waits until the launcher ends, however it ends. The guardian then kills the Unix process groups that
// it was told of, so that the descendants of the ranks end too, and removes the launcher's temporary folder (empty:
// none). The guardian has a session of its own, so signals that a terminal sends to the launcher do not reach it.
class Guardian {
 public:
  explicit Guardian(const std::string& temporary_folder);
  ~Guardian();  // dismisses the process: it kills and removes nothing
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  // A process that is about to run its program sends the number of its Unix process group through this socket. So there
  // is no moment in which the program runs unguarded.
  int socket() const { return socket_.get(); }

 private:
  FileDescriptor socket_;
  pid_t pid_ = -1;
};

// A program to start as one rank.
struct WorkerCommand {
  std::string path;
  std::vector<std::string> arguments;    // the first is the program's name
  std::vector<std::string> environment;  // "NAME=value"
  FileDescriptor input, output, error;   // if not open: the launcher's own stream
  std::optional<cpu_set_t> cores;
};

// Starts a process in a session and a Unix process group of its own. The kernel kills the process when the calling
// thread ends. Throws an Error that names the program when it does not start within `time`. Chosen: one minute is ample
// for a slow file server, and short beside the time that users of a dead one would wait.
pid_t start_worker(const WorkerCommand& command, const Guardian& guardian,
                   std::chrono::milliseconds time = std::chrono::minutes(1));

// Returns the file that `name` stands for: `name` itself if it has a slash, else the file found in the folders of PATH.
// Throws an Error if there is no such file or if it cannot be executed.
std::string find_program(const std::string& name);

// Catches the signals that a launcher must act on, until the SignalPipe is destroyed. A process may have only one at a
// time.
class SignalPipe {
 public:
  SignalPipe();
  ~SignalPipe();
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  int fd() const { return read_end_.get(); }  // readable when a signal has come
  std::vector<int> take();                    // the signals that have come since the last call
  bool has_request();                         // whether the next take() will return one that asks to stop
  static bool asks_to_stop(int signal) {
    return signal != SIGCHLD && signal != SIGUSR1 && signal != SIGUSR2 && signal != SIGTSTP;
  }

 private:
  void read();

  FileDescriptor read_end_, write_end_;
  std::vector<int> come_;
  std::vector<std::pair<int, struct sigaction>> previous_;
};

}  // namespace tandem::distributed
