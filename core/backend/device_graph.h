// DeviceGraph: work on a device that is recorded once and then repeated by one call. Work on the host is not repeated.
#pragma once

#include <tandem/core/device/device.h>
#include <tandem/core/device/recording.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace tandem {

// A graph keeps the memory that the recorded work allocated: results stay at their addresses, and each replay
// overwrites them. Arrays that existed before the recording and that the work read or wrote must stay alive and must
// not move. Only one thread may use a graph.
class DeviceGraph {
 public:
  DeviceGraph() = default;
  virtual ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;
  // Starts the recorded work, after all work that this thread started on the device earlier.
  void replay();

 private:
  friend std::unique_ptr<DeviceGraph> record_graph(Device device, const std::function<void()>& work);
  virtual void start() = 0;

  std::vector<std::function<void()>> before_;
  Device device_{};
  void* memory_ = nullptr;  // the memory for Recording::allocate
};

// Runs `work` and records its work on `device` instead of executing it. The host's part of `work` runs once, as usual.
// Throws an Error if the device can't record (the CPU), or if the host waits for the device (item(), to_vector(),
// synchronize) or copies numbers to it (Array::to). Rethrows exceptions of `work`. If recording fails, the contents of
// arrays that `work` wrote are undefined. Code that `work` calls finds the recording with Recording::current().
std::unique_ptr<DeviceGraph> record_graph(Device device, const std::function<void()>& work);

// Returns the number of replays that this thread has started. A replay's writes do not count as writes
// (Storage::version).
std::uint64_t replays_so_far();

// The function that record_graph calls to record. A back-end that can record sets it.
using GraphRecorder = std::unique_ptr<DeviceGraph> (*)(Device device, const std::function<void()>& work);
void set_graph_recorder(GraphRecorder recorder);

}  // namespace tandem
