#include <tandem/core/base/write_all.h>
#include <tandem/distributed/launch/worker_output.h>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string_view>
#include <utility>

namespace tandem::distributed {

void OutputQueue::write_some() {
  // A pipe that is ready for writing accepts PIPE_BUF bytes atomically and without blocking (POSIX), even if rank 0
  // writes to the same pipe.
  const auto rest = std::string_view(waiting_).substr(written_);
  auto size = std::min<std::size_t>(rest.size(), PIPE_BUF);
  const auto line_end = rest.rfind('\n', size - 1);
  if (line_end != std::string_view::npos) size = line_end + 1;
  const auto n = ::write(fd_, rest.data(), size);
  if (n > 0) {
    written_ += static_cast<std::size_t>(n);
    // Erasing moves the rest, so it waits until half is written.
    if (2 * written_ >= waiting_.size()) waiting_.erase(0, std::exchange(written_, 0));
  } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
    waiting_.clear();
    written_ = 0;
    if (errno != EPIPE) failure_ = errno_text();
  }
}

void OutputQueue::flush(Deadline deadline) {
  while (has_waiting()) {
    pollfd ready{fd_, POLLOUT, 0};
    if (!poll_until(&ready, 1, deadline)) return;
    write_some();
  }
}

WorkerStream::WorkerStream(FileDescriptor pipe, OutputQueue* console, std::string prefix, FileDescriptor log,
                           std::string log_path)
    : pipe_(std::move(pipe)),
      console_(console),
      prefix_(std::move(prefix)),
      log_(std::move(log)),
      log_path_(std::move(log_path)) {
  fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
}

void WorkerStream::read_some() {
  char buffer[1 << 16];  // as much as a pipe holds (pipe(7))
  const auto n = ::read(pipe_.get(), buffer, sizeof buffer);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    if (!unfinished_.empty()) take_line(std::exchange(unfinished_, {}));
    pipe_.close();
    return;
  }
  const auto size = static_cast<std::size_t>(n);
  if (log_.is_open() && write_all(log_.get(), buffer, size) < size) {
    const auto reason = errno_text();
    if (console_) console_->add("tandemrun: the log file " + log_path_ + " cannot be written: " + reason + "\n");
    log_.close();
  }
  unfinished_.append(buffer, size);
  std::size_t begin = 0;
  for (auto end = unfinished_.find('\n'); end != std::string::npos; end = unfinished_.find('\n', begin)) {
    take_line(unfinished_.substr(begin, end - begin));
    begin = end + 1;
  }
  unfinished_.erase(0, begin);
  // A program that never ends its line must not use up the launcher's memory.
  if (unfinished_.size() <= sizeof buffer) return;
  take_line(unfinished_);
  unfinished_.clear();
}

void WorkerStream::take_line(const std::string& line) {
  // Programs begin their error messages with "[rank1]: ...", so such a line needs no prefix.
  const bool is_marked = !prefix_.empty() && line.compare(0, prefix_.size() - 1, prefix_, 0, prefix_.size() - 1) == 0;
  if (console_) console_->add((is_marked ? "" : prefix_) + line + "\n");
  last_lines_.push_back(line.substr(0, line_bytes_kept));
  if (last_lines_.size() > lines_kept) last_lines_.pop_front();
}

}  // namespace tandem::distributed
