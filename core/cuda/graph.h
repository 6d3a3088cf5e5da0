// CudaGraph: a CUDA graph of the work that one thread asked of a GPU.
// https://docs.nvidia.com/cuda/cuda-c-programming-guide/, "CUDA Graphs"
#pragma once

#include <tandem/core/backend/device_graph.h>
#include <tandem/core/cuda/runtime.h>
#include <tandem/core/device/gpu_allocator.h>

#include <exception>
#include <memory>
#include <mutex>

namespace tandem::cuda {

// The executable form of a recorded graph. NCCL ends a communicator only when no graph contains its kernels any more.
// Code that records such work therefore keeps a weak pointer to the graph, and calls break_off() before it ends the
// communicator. Any thread may call the functions.
class ExecutableGraph {
 public:
  ExecutableGraph() = default;
  ~ExecutableGraph();
  ExecutableGraph(const ExecutableGraph&) = delete;
  ExecutableGraph& operator=(const ExecutableGraph&) = delete;

  void make(cudaGraph_t graph);
  bool is_made() const;
  void launch(cudaStream_t stream);
  // The driver deletes the graph as soon as its running replays have ended. launch() throws `cause` from now on.
  void break_off(std::exception_ptr cause) noexcept;

 private:
  mutable std::mutex mutex_;  // guards what follows
  cudaGraphExec_t executable_ = nullptr;
  std::exception_ptr cause_;
};

// The graph that this thread records now; null if it records none.
std::shared_ptr<ExecutableGraph> recorded_graph();

// Call begin_capture, do the work, call end_capture, and then replay as often as wanted. From begin to end, this
// thread's work goes to a stream of the graph's own, and memory comes from a pool of the graph's own. No other code
// gets memory of that pool before the graph is gone. A call that makes the host wait for the GPU spoils the capture:
// end_capture then throws.
class CudaGraph final : public DeviceGraph {
 public:
  explicit CudaGraph(int device);
  ~CudaGraph() override;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void begin_capture();
  void end_capture();

 private:
  void start() override;
  cudaGraph_t stop_capture();

  const int device_;
  cudaStream_t capture_stream_ = nullptr, replay_stream_ = nullptr;
  std::unique_ptr<StreamGuard> guard_;  // while capturing
  GpuAllocator::Pool pool_ = 0;
  const std::shared_ptr<ExecutableGraph> executable_ = std::make_shared<ExecutableGraph>();
};

// The GraphRecorder of GPUs.
std::unique_ptr<DeviceGraph> record_graph(Device device, const std::function<void()>& work);

}  // namespace tandem::cuda
