// The launcher's processes: starting them so that none is left behind.
#pragma once

#include <tandem/distributed/system/socket.h>

#include <sched.h>
#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::distributed {

// A process that waits for the launcher's end, whatever that is, and then kills the process groups it was
// told of, so that children's children go too, and removes the launcher's temporary folder (empty: none). It
// has a session of its own: what a terminal sends to the launcher does not reach it.
class Guardian {
 public:
  explicit Guardian(const std::string& temporary_folder);
  ~Guardian();  // dismisses it: nothing is killed or removed
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  // A process about to run its program tells its group through this socket, so that no moment is unguarded.
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
  FileDescriptor input, output, error;   // where not open, the launcher's own
  std::optional<cpu_set_t> cores;
};

// Starts a process in a session and process group of its own, which dies with the calling thread. Error when
// it does not start, naming the program.
pid_t start_worker(const WorkerCommand& command, const Guardian& guardian);

// The file that `name` stands for: itself if it has a slash, else from the folders of PATH. Error if there is
// none or if it cannot be executed.
std::string find_program(const std::string& name);

// Catches the signals that a launcher must act on, until it is destroyed. One at a time in a process.
class SignalPipe {
 public:
  SignalPipe();
  ~SignalPipe();
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  int fd() const { return read_end_.get(); }  // readable when a signal has come
  std::vector<int> take();                    // those that have come since the last call
  bool has_request();  // whether one other than SIGCHLD is among those that the next take() gives

 private:
  void read();

  FileDescriptor read_end_, write_end_;
  std::vector<int> come_;
  std::vector<std::pair<int, struct sigaction>> previous_;
};

}  // namespace tandem::distributed
