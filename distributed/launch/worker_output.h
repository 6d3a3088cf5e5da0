// What the ranks of a job print, on its way from their pipes to the launcher's own streams and to log files.
#pragma once

#include <tandem/distributed/system/socket.h>

#include <cstddef>
#include <deque>
#include <string>

namespace tandem::distributed {

// The launcher's stdout or stderr. Text waits in the queue while the reader at the other end is slow, so that writing
// never blocks the launcher.
class OutputQueue {
 public:
  explicit OutputQueue(int fd) : fd_(fd) {}

  int fd() const { return fd_; }
  void add(const std::string& text) { waiting_ += text; }
  bool has_waiting() const { return !waiting_.empty(); }
  bool is_full() const { return waiting_.size() > (std::size_t{1} << 20); }
  // REQUIRES: poll has found fd() ready for writing.
  void write_some();
  // Writes until all text is written or the deadline has come. Text that is left then is lost.
  void flush(Deadline deadline);

 private:
  int fd_;
  std::string waiting_;
};

// The reading end of one rank's stdout or stderr.
class WorkerStream {
 public:
  // `console` null: the output is not shown. `log` closed: the output goes to no file.
  WorkerStream(FileDescriptor pipe, OutputQueue* console, std::string prefix, FileDescriptor log);

  int fd() const { return pipe_.get(); }
  bool is_open() const { return pipe_.is_open(); }
  const OutputQueue* console() const { return console_; }
  // Reads what is there, at most one buffer. At the end of the file the stream closes.
  void read_some();
  // The last lines, for a report of failure.
  const std::deque<std::string>& last_lines() const { return last_lines_; }

  static constexpr std::size_t lines_kept = 10;

 private:
  void take_line(const std::string& line);

  FileDescriptor pipe_;
  OutputQueue* console_;
  std::string prefix_;
  FileDescriptor log_;
  std::string unfinished_;
  std::deque<std::string> last_lines_;
};

}  // namespace tandem::distributed
