// DeviceGraph: work that was asked of a device, recorded once and then repeated in one call. The host's part in the
// work is not repeated.
#pragma once

#include <tandem/core/device/device.h>
#include <tandem/core/device/recording.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace tandem {

// Keeps the memory that the recorded work allocated: results stay where they are, and each replay overwrites them.
// Arrays from before the recording that the work read or wrote must stay alive and must not move. For one thread.
class DeviceGraph {
 public:
  DeviceGraph() = default;
  virtual ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;
  // Starts the recorded work, after everything that this thread asked of the device before.
  void replay();

 private:
  friend std::unique_ptr<DeviceGraph> record_graph(Device device, const std::function<void()>& work);
  virtual void start() = 0;

  std::vector<std::function<void()>> before_;
  Device device_{};
  void* memory_ = nullptr;  // what Recording::allocate hands out
};

// Runs `work` so that what it asks of `device` is recorded and not done. What `work` does on the host is done, once.
// Errors: the device can't record (the CPU); the host waits for the device (item(), to_vector(), synchronize) or copies
// numbers to it (Array::to); and whatever `work` itself throws. When recording fails, arrays that `work` wrote hold
// nothing of use. Code that `work` calls reaches the recording by Recording::current().
std::unique_ptr<DeviceGraph> record_graph(Device device, const std::function<void()>& work);

// How many replays this thread has started. What a replay writes does not count as a write (Storage::version).
std::uint64_t replays_so_far();

// How record_graph records. A back-end that can record sets it.
using GraphRecorder = std::unique_ptr<DeviceGraph> (*)(Device device, const std::function<void()>& work);
void set_graph_recorder(GraphRecorder recorder);

}  // namespace tandem
