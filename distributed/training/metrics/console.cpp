#include <tandem/distributed/system/terminal.h>
#include <tandem/distributed/training/metrics/console.h>

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <iostream>

namespace tandem::distributed {
namespace {

constexpr double progress_interval = 0.2;  // seconds; chosen: a user can't read faster

// Returns the number of columns of the terminal. A progress line must be shorter, because a wrapped line can't be
// cleared as one line.
std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

Console::Console(bool speaks) : speaks_(speaks), on_terminal_(isatty(STDOUT_FILENO) != 0) {}

Console::~Console() { clear_progress(); }

void Console::line(const std::string& text) {
  if (!speaks_) return;
  clear_progress();
  std::cout << text << std::endl;
}

void Console::note(const std::string& text) {
  if (!speaks_) return;
  clear_progress();
  std::cerr << start_of_line(STDERR_FILENO) << text << std::endl;  // also replaces a lone "^C" on the terminal
}

bool Console::wants_progress() const { return speaks_ && on_terminal_ && now() >= next_progress_; }

void Console::progress(const std::vector<std::string>& parts) {
  // "\x1b[K" clears the rest of the previous line after the new text.
  std::cout << '\r' << progress_line(parts, terminal_width() - 1) << "\x1b[K" << std::flush;
  progress_shown_ = true;
  next_progress_ = now() + progress_interval;
}

void Console::clear_progress() {
  if (progress_shown_) std::cout << "\r\x1b[K" << std::flush;
  progress_shown_ = false;
}

std::string progress_line(const std::vector<std::string>& parts, std::size_t width) {
  std::string line;
  for (const auto& part : parts) {
    const std::string more = (line.empty() ? "" : "  ") + part;
    if (line.size() + more.size() > width) break;
    line += more;
  }
  return line;
}

std::string counted(std::int64_t n, const std::string& thing, const std::string& plural) {
  return std::to_string(n) + ' ' + thing + (n == 1 ? "" : plural);
}

}  // namespace tandem::distributed
