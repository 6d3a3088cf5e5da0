// CudaGraph: a CUDA graph of the work that one thread asked of a GPU.
// https://docs.nvidia.com/cuda/cuda-c-programming-guide/, "CUDA Graphs"
#pragma once

#include <tandem/core/cuda/runtime.h>
#include <tandem/core/device/caching_allocator.h>
#include <tandem/core/device/device_graph.h>

namespace tandem::cuda {

// Call begin_capture, do the work, call end_capture, and then replay as often as wanted. From begin to end, this
// thread's work goes to a stream of the graph's own, and memory comes from a pool of the graph's own. Nobody else gets
// memory of that pool before the graph is gone. A call that makes the host wait for the GPU spoils the capture:
// end_capture then throws.
class CudaGraph final : public DeviceGraph {
 public:
  explicit CudaGraph(int device);
  ~CudaGraph() override;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void begin_capture();
  void end_capture();
  void replay() override;

 private:
  cudaGraph_t stop_capture();

  const int device_;
  cudaStream_t capture_stream_ = nullptr;
  std::unique_ptr<StreamGuard> guard_;  // while capturing
  CachingAllocator::Pool pool_ = 0;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace tandem::cuda
