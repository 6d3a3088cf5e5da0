// DeviceGraph: work that was asked of a device, recorded once and then repeated in one call. The host's part in the
// work is not repeated.
#pragma once

#include <tandem/core/device/device.h>

#include <cstddef>
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
  void* memory_ = nullptr;  // what allocate_in_graph hands out
};

// Runs `work` so that what it asks of `device` is recorded and not done. What `work` does on the host is done, once.
// Errors: the device can't record (the CPU); the host waits for the device (item(), to_vector(), synchronize) or copies
// numbers to it (Array::to); and whatever `work` itself throws. When recording fails, arrays that `work` wrote hold
// nothing of use.
std::unique_ptr<DeviceGraph> record_graph(Device device, const std::function<void()>& work);

// Whether this thread is inside record_graph. Code that reads a value of the device asks, because the value is not
// there yet while a graph is recorded.
bool is_recording_graph();
// How many replays this thread has started. What a replay writes does not count as a write (Storage::version).
std::uint64_t replays_so_far();

// Inside record_graph: `work` runs on the host at the beginning of each replay, and what it asks of the device then
// comes before the recorded work. So a replay can use what is new each time.
void before_replay(std::function<void()> work);
// Inside record_graph: memory of the device that lives as long as the graph and that no recorded work touches but what
// is given its address. What before_replay writes there is still there when the recorded work comes to it; memory of
// Arrays may serve something else in between. At most 64 KiB in all for a recording: Error when there is no more.
void* allocate_in_graph(std::size_t bytes);
// A number for the recording that this thread is in, which no other recording of the thread has; 0 outside of
// record_graph.
std::uint64_t recording_number();

// How record_graph records on a GPU (core/cuda/graph.cpp), in builds with CUDA.
std::unique_ptr<DeviceGraph> record_cuda_graph(Device device, const std::function<void()>& work);
// For tests: lets something stand in for the recorder of a GPU.
using GraphRecorder = std::unique_ptr<DeviceGraph> (*)(Device device, const std::function<void()>& work);
void set_graph_recorder(GraphRecorder recorder);

}  // namespace tandem
