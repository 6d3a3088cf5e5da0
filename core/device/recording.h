// Recording: what a thread is in while work that it asks of a device is recorded as a graph, and not done
// (core/backend/device_graph.h).
#pragma once

#include <tandem/core/base/temporarily.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace tandem {

// A thread is in a recording from its construction to its destruction. For that thread alone.
class Recording : NoCopy {
 public:
  // The recording that this thread is in, or null.
  static Recording* current() { return current_; }

  // Above 0. No other recording of the thread has this number.
  virtual std::uint64_t number() const = 0;
  // `work` runs on the host at the beginning of each replay, and what it asks of the device then comes before the
  // recorded work. So a replay can use what is new each time.
  virtual void before_replay(std::function<void()> work) = 0;
  // Memory of the device that lives as long as the graph and that no recorded work touches but what is given its
  // address. What before_replay writes there is still there when the recorded work comes to it; memory of Arrays may
  // serve something else in between. At most 64 KiB in all for a recording: Error when there is no more.
  virtual void* allocate(std::size_t bytes) = 0;

 protected:
  Recording() { current_ = this; }
  ~Recording() { current_ = nullptr; }

 private:
  static inline constinit thread_local Recording* current_ = nullptr;
};

// Whether this thread is inside record_graph. Code that reads a value of the device asks, because the value is not
// there yet while a graph is recorded.
inline bool is_recording_graph() { return Recording::current() != nullptr; }

}  // namespace tandem
