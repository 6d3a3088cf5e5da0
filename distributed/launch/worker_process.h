// Starts processes, and ensures that no process is left behind when the launcher ends.
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

// A process that waits until the launcher ends for any reason. The guardian then kills the Unix process groups that
// were registered with it, so the descendants of the ranks end too. It also removes the launcher's temporary folder,
// unless the path is empty. The guardian has its own session, so it does not receive signals that a terminal sends to
// the launcher.
class Guardian {
 public:
  explicit Guardian(const std::string& temporary_folder);
  ~Guardian();  // dismisses the process: it kills and removes nothing
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  // A process sends the number of its Unix process group through this socket just before it runs its program, so the
  // program never runs unguarded.
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

// Starts a process in its own session and Unix process group. The kernel kills the process when the calling thread
// ends. Throws an Error that names the program if it does not start within `time`. One minute is ample for a slow file
// server, and short compared with the wait for a dead one.
pid_t start_worker(const WorkerCommand& command, const Guardian& guardian,
                   std::chrono::milliseconds time = std::chrono::minutes(1));

// Returns the program file: `name` itself if it has a slash, else the file of this name in the folders of PATH. Throws
// an Error if there is no such file or if it can't be executed.
std::string find_program(const std::string& name);

// Catches the signals to which a launcher must react, until the SignalPipe is destroyed. A process may have only one
// SignalPipe at a time.
class SignalPipe {
 public:
  SignalPipe();
  ~SignalPipe();
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  int fd() const { return read_end_.get(); }  // readable when a signal has arrived
  std::vector<int> take();                    // returns the signals that have arrived since the last call
  bool has_request();                         // whether the next take() will return a request to stop
  static bool asks_to_stop(int signal) {
    return signal != SIGCHLD && signal != SIGUSR1 && signal != SIGUSR2 && signal != SIGTSTP;
  }

 private:
  void read();

  FileDescriptor read_end_, write_end_;
  std::vector<int> come_;
  std::vector<std::pair<int, struct sigaction>> previous_;
  sigset_t previous_mask_;  // of the thread that made this object
};

}  // namespace tandem::distributed
