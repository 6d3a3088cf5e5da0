// DeviceGraph: work that a device was asked for, recorded once and then repeated in one call, without the host's part
// in it.
#pragma once

#include <tandem/core/device/device.h>

#include <functional>
#include <memory>

namespace tandem {

// Keeps the memory that the recorded work allocated: results stay where they are, and each replay writes them anew.
// Arrays from before, which the work read or wrote, must stay alive and where they are. One thread.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // Starts the recorded work, behind all that this thread has asked of the device before.
  virtual void replay() = 0;
};

// Runs `work` so that what it asks of `device` is recorded instead of done. Whatever it does on the host is done, once.
// Error when the device can't record (the CPU), when the host waits for the device (item(), to_vector(), synchronize)
// or brings it numbers (Array::to), and what `work` itself throws. Arrays that `work` had written before it failed hold
// nothing of use.
std::unique_ptr<DeviceGraph> record_graph(Device device, const std::function<void()>& work);

// Whether this thread is inside record_graph: for code that would otherwise read a value which is not there yet.
bool is_recording_graph();

// What record_graph does on a GPU (core/cuda/graph.cpp), in builds with CUDA.
std::unique_ptr<DeviceGraph> record_cuda_graph(Device device, const std::function<void()>& work);
// Where something stands in for a GPU: for tests.
using GraphRecorder = std::unique_ptr<DeviceGraph> (*)(Device device, const std::function<void()>& work);
void set_graph_recorder(GraphRecorder recorder);

}  // namespace tandem
