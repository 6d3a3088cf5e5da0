// Console: what a training program says to people.
#pragma once

#include <string>

namespace tandem::distributed {

// Only the rank that speaks prints anything. A progress line stands at the bottom of a terminal and gives way to whole
// lines; where stdout is no terminal there is none.
class Console {
 public:
  explicit Console(bool speaks);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // A result, on stdout.
  void line(const std::string& text);
  // Anything else that matters, on stderr: what was chosen, warnings.
  void note(const std::string& text);

  // Whether a new progress line is due: on a terminal, a few times a second.
  bool wants_progress() const;
  void progress(const std::string& text);

 private:
  void clear_progress();

  const bool speaks_;
  const bool on_terminal_;
  bool progress_shown_ = false;
  double next_progress_ = 0;  // seconds on a steady clock
};

}  // namespace tandem::distributed
