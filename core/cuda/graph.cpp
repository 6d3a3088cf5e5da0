#include <tandem/core/cuda/device_memory.h>
#include <tandem/core/cuda/graph.h>

#include <utility>

namespace tandem::cuda {

namespace {
thread_local std::weak_ptr<ExecutableGraph> recorded;
}

std::shared_ptr<ExecutableGraph> recorded_graph() { return recorded.lock(); }

ExecutableGraph::~ExecutableGraph() {
  if (executable_) cudaGraphExecDestroy(executable_);
}

void ExecutableGraph::make(cudaGraph_t graph) {
  const std::lock_guard lock(mutex_);
  if (cause_) std::rethrow_exception(cause_);
  TANDEM_CUDA(cudaGraphInstantiate(&executable_, graph, 0));
}

bool ExecutableGraph::is_made() const {
  const std::lock_guard lock(mutex_);
  return executable_ || cause_;
}

void ExecutableGraph::launch(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  if (cause_) std::rethrow_exception(cause_);
  TANDEM_CUDA(cudaGraphLaunch(executable_, stream));
}

void ExecutableGraph::break_off(std::exception_ptr cause) noexcept {
  const std::lock_guard lock(mutex_);
  if (!cause_) cause_ = std::move(cause);
  if (executable_) cudaGraphExecDestroy(std::exchange(executable_, nullptr));
}

CudaGraph::CudaGraph(int device) : device_(device) {
  use_device(device_);
  TANDEM_CUDA(cudaStreamCreateWithFlags(&capture_stream_, cudaStreamNonBlocking));
}

// Replays may still be running. Before their memory goes to other streams or back to the driver, the destructor waits
// for the stream in which they run. Within one stream, the order of the calls would be enough.
CudaGraph::~CudaGraph() {
  int before = -1;
  cudaGetDevice(&before);
  cudaSetDevice(device_);
  if (guard_) {
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(capture_stream_, &graph);
    if (graph) cudaGraphDestroy(graph);
    guard_.reset();
    recorded.reset();
    device_allocator(device_).close_pool();
  }
  if (replay_stream_) cudaStreamSynchronize(replay_stream_);
  cudaStreamDestroy(capture_stream_);
  cudaGetLastError();  // clears the error: a GPU that has failed reports it to the next code that uses it
  if (pool_) device_allocator(device_).drop_pool(pool_);
  if (before >= 0) cudaSetDevice(before);
}

void CudaGraph::begin_capture() {
  TANDEM_CHECK(!guard_ && !executable_->is_made(), "a CudaGraph captures once");
  use_device(device_);
  // Earlier work is finished before the graph runs, because the graph is replayed in the same stream.
  pool_ = device_allocator(device_).open_pool();
  guard_ = std::make_unique<StreamGuard>(capture_stream_);
  // In relaxed mode, the allocator may ask the driver for memory during the capture, and other threads may make any
  // call.
  TANDEM_CUDA(cudaStreamBeginCapture(capture_stream_, cudaStreamCaptureModeRelaxed));
  recorded = executable_;
}

cudaGraph_t CudaGraph::stop_capture() {
  cudaGraph_t graph = nullptr;
  const cudaError_t status = cudaStreamEndCapture(capture_stream_, &graph);
  guard_.reset();
  recorded.reset();
  device_allocator(device_).close_pool();
  check(status, "cudaStreamEndCapture");
  return graph;
}

void CudaGraph::end_capture() {
  TANDEM_CHECK(guard_, "a CudaGraph can't end a capture that it has not begun");
  use_device(device_);
  cudaGraph_t graph = stop_capture();
  const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, decltype(&cudaGraphDestroy)> owner(graph, cudaGraphDestroy);
  executable_->make(graph);
}

void CudaGraph::start() {
  TANDEM_CHECK(executable_->is_made(), "a CudaGraph is captured before it is replayed");
  use_device(device_);
  replay_stream_ = current_stream();
  executable_->launch(replay_stream_);
}

std::unique_ptr<DeviceGraph> record_graph(Device device, const std::function<void()>& work) {
  auto graph = std::make_unique<CudaGraph>(device.index);
  graph->begin_capture();
  work();
  graph->end_capture();
  return graph;
}

}  // namespace tandem::cuda
