// Recording: the state of a thread while its work for a device is recorded as a graph instead of executed
// (core/backend/device_graph.h).
#pragma once

#include <tandem/core/base/temporarily.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace tandem {

// A thread records from the construction of this object to its destruction. Only that thread may use the object.
class Recording : NoCopy {
 public:
  // Returns the recording of this thread, or null.
  static Recording* current() { return current_; }

  // Returns a number above 0. No other recording of the thread has the same number.
  virtual std::uint64_t number() const = 0;
  // `work` runs on the host at the beginning of each replay, and the work that it starts on the device runs before the
  // recorded work. A replay can thus use values that change each time.
  virtual void before_replay(std::function<void()> work) = 0;
  // Returns device memory that lives as long as the graph. Only recorded work to which its address was passed uses this
  // memory. Data that before_replay's work writes there is still intact when the recorded work reads it, whereas an
  // Array's memory may be reused in between. A recording may allocate at most 64 KiB in all: beyond that, an Error is
  // thrown.
  virtual void* allocate(std::size_t bytes) = 0;

 protected:
  Recording() { current_ = this; }
  ~Recording() { current_ = nullptr; }

 private:
  static inline constinit thread_local Recording* current_ = nullptr;
};

// Returns whether this thread is inside record_graph(). Code that reads a value from the device must check this first,
// because the value does not exist yet while a graph is recorded.
inline bool is_recording_graph() { return Recording::current() != nullptr; }

}  // namespace tandem
