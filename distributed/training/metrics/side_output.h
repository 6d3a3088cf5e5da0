// SideOutput: a file that a training writes in addition to its results, such as metrics, events or a trace.
#pragma once

#include <functional>
#include <string>
#include <utility>

namespace tandem::distributed {

// A full disk does not stop a training. If a file can't be written, `say` is called once with a line about it. The
// training continues without the file, saves its results, and then ends with the error. Only one thread may use it.
class SideOutput {
 public:
  explicit SideOutput(std::function<void(const std::string&)> say) : say_(std::move(say)) {}

  // Calls `write`, unless an earlier call has thrown an Error. Returns whether everything has been written so far.
  bool write(const std::function<void()>& write);
  // Throws the Error of write(), if there was one. Call it when the results are safe.
  void require_written() const;

 private:
  const std::function<void(const std::string&)> say_;
  std::string failure_;
};

}  // namespace tandem::distributed
