#include <tandem/core/cuda/device_memory.h>
#include <tandem/core/cuda/graph.h>

namespace tandem::cuda {

CudaGraph::CudaGraph(int device) : device_(device) {
  use_device(device_);
  TANDEM_CUDA(cudaStreamCreateWithFlags(&capture_stream_, cudaStreamNonBlocking));
}

// Replays may still be running. Before their memory goes to the streams of others or back to the driver, the destructor
// waits for the stream in which they run. Within one stream, the order of the calls would be enough.
CudaGraph::~CudaGraph() {
  int before = -1;
  cudaGetDevice(&before);
  cudaSetDevice(device_);
  if (guard_) {
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(capture_stream_, &graph);
    if (graph) cudaGraphDestroy(graph);
    guard_.reset();
    device_allocator(device_).close_pool();
  }
  if (executable_) {
    cudaStreamSynchronize(current_stream());
    cudaGraphExecDestroy(executable_);
  }
  cudaStreamDestroy(capture_stream_);
  cudaGetLastError();  // clears the error: a GPU that has failed reports it to those who use it next
  if (pool_) device_allocator(device_).drop_pool(pool_);
  if (before >= 0) cudaSetDevice(before);
}

void CudaGraph::begin_capture() {
  TANDEM_CHECK(!guard_ && !executable_, "a CudaGraph captures once");
  use_device(device_);
  // Work that was asked for before is done before the graph is, because the graph is replayed in the same stream.
  pool_ = device_allocator(device_).open_pool();
  guard_ = std::make_unique<StreamGuard>(capture_stream_);
  // Relaxed mode: the allocator may ask the driver for memory meanwhile, and other threads may do what they like.
  TANDEM_CUDA(cudaStreamBeginCapture(capture_stream_, cudaStreamCaptureModeRelaxed));
}

cudaGraph_t CudaGraph::stop_capture() {
  cudaGraph_t graph = nullptr;
  const cudaError_t status = cudaStreamEndCapture(capture_stream_, &graph);
  guard_.reset();
  device_allocator(device_).close_pool();
  check(status, "cudaStreamEndCapture");
  return graph;
}

void CudaGraph::end_capture() {
  TANDEM_CHECK(guard_, "a CudaGraph can't end a capture that it has not begun");
  use_device(device_);
  cudaGraph_t graph = stop_capture();
  const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "cudaGraphInstantiate");
}

void CudaGraph::replay() {
  TANDEM_CHECK(executable_, "a CudaGraph is captured before it is replayed");
  use_device(device_);
  TANDEM_CUDA(cudaGraphLaunch(executable_, current_stream()));
}

}  // namespace tandem::cuda

namespace tandem {

std::unique_ptr<DeviceGraph> record_cuda_graph(Device device, const std::function<void()>& work) {
  auto graph = std::make_unique<cuda::CudaGraph>(device.index);
  graph->begin_capture();
  work();
  graph->end_capture();
  return graph;
}

}  // namespace tandem
