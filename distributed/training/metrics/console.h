// Console: prints the lines of a training program for the user.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::distributed {

// If `speaks` is false, the Console prints nothing. A program passes true on one rank only. On a terminal, a progress
// line is at the bottom, and other lines replace it. If stdout is not a terminal, there is no progress line. Only one
// thread may use a Console.
class Console {
 public:
  explicit Console(bool speaks);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Prints a result on stdout.
  void line(const std::string& text);
  // Prints other lines on stderr: settings that the program chose, and warnings.
  void note(const std::string& text);

  // Returns whether a new progress line is due: five times a second on a terminal, never elsewhere.
  bool wants_progress() const;
  bool is_on_terminal() const { return on_terminal_; }
  // Prints the parts that fit into the terminal's width, in order. It omits the first part that does not fit, and all
  // later parts. A part is never truncated, because half of a number is a wrong number.
  void progress(const std::vector<std::string>& parts);

 private:
  void clear_progress();

  const bool speaks_;
  const bool on_terminal_;
  bool progress_shown_ = false;
  double next_progress_ = 0;  // seconds on a steady clock
};

// Returns the text of a progress line, at most `width` columns.
std::string progress_line(const std::vector<std::string>& parts, std::size_t width);

// Returns "1 step", "2 steps" or "3 processes".
std::string counted(std::int64_t n, const std::string& thing, const std::string& plural = "s");

}  // namespace tandem::distributed
