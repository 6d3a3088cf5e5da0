// SideOutput: a file that a training writes besides its results, such as metrics, events and a trace.
#pragma once

#include <functional>
#include <string>
#include <utility>

namespace tandem::distributed {

// A full disk costs no training. When a file can't be written, `say` gets a line about it, once; the training goes on
// without the file, saves its results, and then ends with the error. For one thread.
class SideOutput {
 public:
  explicit SideOutput(std::function<void(const std::string&)> say) : say_(std::move(say)) {}

  // Calls `write`, unless an earlier call has thrown an Error. Returns whether all has been written so far.
  bool write(const std::function<void()>& write);
  // The Error of write(), if there was one: when the results are safe.
  void require_written() const;

 private:
  const std::function<void(const std::string&)> say_;
  std::string failure_;
};

}  // namespace tandem::distributed
