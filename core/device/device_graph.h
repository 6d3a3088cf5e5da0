// DeviceGraph: work that was asked of a device, recorded once and then repeated in one call. The host's part in the
// work is not repeated.
#pragma once

#include <tandem/core/device/device.h>

#include <functional>
#include <memory>

namespace tandem {

// Keeps the memory that the recorded work allocated: results stay where they are, and each replay overwrites them.
// Arrays from before the recording that the work read or wrote must stay alive and must not move. For one thread.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // Starts the recorded work, after everything that this thread asked of the device before.
  virtual void replay() = 0;
};

// Runs `work` so that what it asks of `device` is recorded and not done. What `work` does on the host is done, once.
// Errors: the device can't record (the CPU); the host waits for the device (item(), to_vector(), synchronize) or copies
// numbers to it (Array::to); and whatever `work` itself throws. When recording fails, arrays that `work` wrote hold
// nothing of use.
std::unique_ptr<DeviceGraph> record_graph(Device device, const std::function<void()>& work);

// Whether this thread is inside record_graph. Code that reads a value of the device asks, because the value is not
// there yet while a graph is recorded.
bool is_recording_graph();

// How record_graph records on a GPU (core/cuda/graph.cpp), in builds with CUDA.
std::unique_ptr<DeviceGraph> record_cuda_graph(Device device, const std::function<void()>& work);
// For tests: lets something stand in for the recorder of a GPU.
using GraphRecorder = std::unique_ptr<DeviceGraph> (*)(Device device, const std::function<void()>& work);
void set_graph_recorder(GraphRecorder recorder);

}  // namespace tandem
