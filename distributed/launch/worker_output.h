// Forwards the output of a job's ranks from their pipes to the launcher's own streams and to log files.
#pragma once

#include <tandem/distributed/system/socket.h>
#include <tandem/distributed/system/terminal.h>

#include <cstddef>
#include <deque>
#include <string>

namespace tandem::distributed {

// The launcher's stdout or stderr. Text waits in the queue while the reader at the other end is slow, so writing never
// blocks the launcher. Only one thread may use a queue.
class OutputQueue {
 public:
  explicit OutputQueue(int fd) : fd_(fd), start_(start_of_line(fd)) {}

  int fd() const { return fd_; }
  // Adds whole lines. On a terminal, they replace the progress line of rank 0, and a "^C" after it.
  void add(const std::string& text) { waiting_ += start_ + text; }
  bool has_waiting() const { return !waiting_.empty(); }
  // A full queue still accepts text, but until there is room the launcher does not read the output of the ranks that
  // write to this queue. 1 MiB is more than ranks print at once (a traceback, a table), and little memory.
  bool is_full() const { return waiting_.size() - written_ > (std::size_t{1} << 20); }
  // Writes some of the text. REQUIRES: poll() has found fd() ready for writing.
  void write_some();
  // Writes until no text is left or the deadline passes.
  void flush(Deadline deadline);
  // Returns why text could not be written, such as "No space left on device". Empty if there was no failure, or if the
  // reader has closed its end.
  const std::string& failure() const { return failure_; }

 private:
  int fd_;
  std::string start_;
  std::string waiting_;
  std::size_t written_ = 0;  // of waiting_
  std::string failure_;
};

// The launcher's end of the pipe for one rank's stdout or stderr. It forwards whole lines. Only one thread may use it.
class WorkerStream {
 public:
  // Each line goes to `console` with `prefix`, unless `console` is null. The output also goes to the file `log`, if it
  // is open. `log_path` is the name of that file, for the warning that it can't be written.
  WorkerStream(FileDescriptor pipe, OutputQueue* console, std::string prefix, FileDescriptor log, std::string log_path);

  int fd() const { return pipe_.get(); }
  bool is_open() const { return pipe_.is_open(); }
  const OutputQueue* console() const { return console_; }
  // Reads the available output, at most 64 KiB. At the end of the output, it closes the pipe.
  void read_some();
  // Returns the last lines, for the report of a failure.
  const std::deque<std::string>& last_lines() const { return last_lines_; }

  static constexpr std::size_t lines_kept = 10;         // chosen: enough for an error message, and short on a terminal
  static constexpr std::size_t line_bytes_kept = 1000;  // chosen: ten lines still fit on a screen

 private:
  void take_line(const std::string& line);

  FileDescriptor pipe_;
  OutputQueue* console_;
  std::string prefix_;
  FileDescriptor log_;
  std::string log_path_;
  std::string unfinished_;  // the beginning of a line
  std::deque<std::string> last_lines_;
};

}  // namespace tandem::distributed
