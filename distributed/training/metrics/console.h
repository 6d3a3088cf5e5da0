// Console: the lines that a training program prints for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::distributed {

// With `speaks` false, nothing is printed; a program lets one rank speak. On a terminal, a progress line stands at the
// bottom, and other lines appear in its place. Where stdout is no terminal, there is no progress line. For one thread.
class Console {
 public:
  explicit Console(bool speaks);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Prints a result, on stdout.
  void line(const std::string& text);
  // Prints what is no result, on stderr: settings that the program chose, warnings.
  void note(const std::string& text);

  // Whether a new progress line is due. On a terminal one is due five times a second, elsewhere never.
  bool wants_progress() const;
  bool is_on_terminal() const { return on_terminal_; }
  // The parts that fit into the terminal's width, in this order. Those from the first one on that does not fit are left
  // out as a whole, because half of a number is a wrong number.
  void progress(const std::vector<std::string>& parts);

 private:
  void clear_progress();

  const bool speaks_;
  const bool on_terminal_;
  bool progress_shown_ = false;
  double next_progress_ = 0;  // seconds on a steady clock
};

// The text of such a line: at most `width` columns.
std::string progress_line(const std::vector<std::string>& parts, std::size_t width);

// "1 step", "2 steps", "3 processes".
std::string counted(std::int64_t n, const std::string& thing, const std::string& plural = "s");

}  // namespace tandem::distributed
