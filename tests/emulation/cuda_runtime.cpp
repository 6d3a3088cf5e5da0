#include <completion.h>
#include <cuda_runtime.h>
#include <tandem/core/cuda/runtime.h>

#include <ucontext.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

struct EmulatedStream {
  EmulatedGraph* capturing = nullptr;
  bool spoiled = false;  // true after a call that no graph can hold
  std::shared_ptr<emulation::Completion> last;
};
struct EmulatedEvent {
  std::shared_ptr<emulation::Completion> after;
};
struct EmulatedGraph {
  std::vector<std::function<void()>> work;
};

namespace emulation {
namespace {

std::recursive_mutex mutex;                              // the GPU does one thing at a time
thread_local EmulatedStream* captured_stream = nullptr;  // where the work of this thread goes: see StreamGuard
thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
std::map<void*, std::size_t> blocks;

// One block of a kernel. Each fiber runs threads of the block one after the other. When a thread waits, its fiber is
// put aside, and another fiber goes on with the threads that have not begun.
class Block {
 public:
  Block(dim3 size, const std::function<void()>& thread) : size_(size), thread_(thread) {
    count_ = size.x * size.y * size.z;
    slots_.resize((count_ + 31) / 32 * 32);
  }

  void run() {
    while (finished_ < count_) {
      if (begun_ < count_) {
        if (idle_.empty()) idle_.push_back(make_fiber());
        Fiber* fiber = idle_.back();
        idle_.pop_back();
        enter(fiber);
      } else {
        release();
      }
    }
  }

  enum class At { warp, block };
  void wait(At barrier) {
    Fiber* fiber = running_;
    waiting_.push_back({fiber, current_, barrier});
    swapcontext(&fiber->context, &scheduler_);
    set_thread(current_ = fiber->resumed);
    running_ = fiber;
  }

  unsigned thread() const { return current_; }
  std::uint64_t* slots_of_warp() { return &slots_[current_ / 32 * 32]; }

  static inline Block* now = nullptr;

 private:
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    unsigned resumed = 0;
  };
  struct Waiting {
    Fiber* fiber;
    unsigned thread;
    At barrier;
  };

  Fiber* make_fiber() {
    constexpr std::size_t stack_bytes = 128 * 1024;
    auto fiber = std::make_unique<Fiber>();
    fiber->stack.reset(new char[stack_bytes]);
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack.get();
    fiber->context.uc_stack.ss_size = stack_bytes;
    fiber->context.uc_link = nullptr;
    makecontext(
        &fiber->context, [] { now->work(); }, 0);
    fibers_.push_back(std::move(fiber));
    return fibers_.back().get();
  }

  void enter(Fiber* fiber) {
    running_ = fiber;
    swapcontext(&scheduler_, &fiber->context);
  }

  // The endless loop that a fiber runs.
  void work() {
    for (;;) {
      Fiber* self = running_;
      if (begun_ == count_) {
        idle_.push_back(self);
        swapcontext(&self->context, &scheduler_);
        continue;
      }
      set_thread(current_ = begun_++);
      thread_();
      ++finished_;
    }
  }

  void set_thread(unsigned index) {
    threadIdx = dim3(index % size_.x, index / size_.x % size_.y, index / size_.x / size_.y);
  }

  // Called when all threads have begun and none can go on. The threads of a warp go on when all threads that are left
  // in the warp wait for the warp. The threads that wait for the block go on when all threads that are left wait for
  // the block.
  void release() {
    std::map<unsigned, unsigned> at_warp;
    unsigned at_block = 0;
    for (const auto& w : waiting_) {
      if (w.barrier == At::block) ++at_block;
      else ++at_warp[w.thread / 32];
    }
    std::map<unsigned, unsigned> left;
    for (const auto& w : waiting_) ++left[w.thread / 32];
    std::vector<Waiting> free, stay;
    for (const auto& w : waiting_) {
      const bool whole_warp = w.barrier == At::warp && at_warp[w.thread / 32] == left[w.thread / 32];
      const bool whole_block = w.barrier == At::block && at_block == waiting_.size();
      (whole_warp || whole_block ? free : stay).push_back(w);
    }
    if (free.empty()) {
      // A GPU would hang here, or do anything at all.
      std::fprintf(stderr, "emulated kernel: %u threads wait at a barrier that others never reach\n", at_block);
      std::abort();
    }
    waiting_ = std::move(stay);
    for (const auto& w : free) {
      w.fiber->resumed = w.thread;
      enter(w.fiber);
    }
  }

  const dim3 size_;
  const std::function<void()>& thread_;
  unsigned count_ = 0, begun_ = 0, finished_ = 0, current_ = 0;
  ucontext_t scheduler_;
  Fiber* running_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::vector<Waiting> waiting_;
  std::vector<std::uint64_t> slots_;
};

cudaError_t log_call(const std::string& call) {
  const std::lock_guard lock(mutex);
  Driver& d = driver();
  d.log.push_back(call);
  if (d.failing_call.empty() || call.find(d.failing_call) != 0) return cudaSuccess;
  d.failing_call.clear();
  return last_error = d.failure;
}

std::mutex completion_mutex;
std::condition_variable completed;

// Runs `work` as soon as the work before it in `stream` is done. While a graph is captured, `work` becomes a part of
// the graph, and runs when the graph is launched.
void submit(cudaStream_t stream, std::function<void()> work) {
  const auto run = [work = std::move(work)] {
    const std::lock_guard lock(mutex);
    work();
  };
  if (record(run)) return;
  wait_for(last_of(stream));
  run();
}

}  // namespace

bool record(const std::function<void()>& work) {
  if (captured_stream) captured_stream->capturing->work.push_back(work);
  return captured_stream != nullptr;
}

void complete(Completion& completion) {
  const std::lock_guard lock(completion_mutex);
  if (--completion.open == 0) completed.notify_all();
}
void set_last(cudaStream_t stream, std::shared_ptr<Completion> completion) {
  const std::lock_guard lock(completion_mutex);
  stream->last = std::move(completion);
}
std::shared_ptr<Completion> last_of(cudaStream_t stream) {
  const std::lock_guard lock(completion_mutex);
  return stream ? stream->last : nullptr;
}
bool is_done(const std::shared_ptr<Completion>& completion) {
  const std::lock_guard lock(completion_mutex);
  return !completion || completion->open <= 0;
}
void wait_for(const std::shared_ptr<Completion>& completion) {
  std::unique_lock lock(completion_mutex);
  completed.wait(lock, [&] { return !completion || completion->open <= 0; });
}

Driver& driver() {
  static auto* instance = new Driver;
  return *instance;
}

void run_kernel(dim3 grid, dim3 block, std::function<void()> thread) {
  const std::string call =
      "launch " + std::to_string(grid.x * grid.y * grid.z) + " x " + std::to_string(block.x * block.y * block.z);
  if (log_call(call) != cudaSuccess) return;
  submit(tandem::cuda::current_stream(), [grid, block, thread = std::move(thread)] {
    gridDim = grid;
    blockDim = block;
    for (unsigned z = 0; z < grid.z; ++z) {
      for (unsigned y = 0; y < grid.y; ++y) {
        for (unsigned x = 0; x < grid.x; ++x) {
          blockIdx = dim3(x, y, z);
          Block running(block, thread);
          Block::now = &running;
          running.run();
        }
      }
    }
  });
}

void wait_for_block() { Block::now->wait(Block::At::block); }
void wait_for_warp() { Block::now->wait(Block::At::warp); }
unsigned lane() { return Block::now->thread() % 32; }
std::uint64_t* slots_of_warp() { return Block::now->slots_of_warp(); }

}  // namespace emulation

using namespace emulation;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = driver().devices;
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= driver().devices) return cudaErrorInvalidDevice;
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    default: return "cudaError";
  }
}
const char* cudaGetErrorString(cudaError_t) { return "as the test wished"; }

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  if (const auto error = log_call("cudaMalloc " + std::to_string(bytes)); error != cudaSuccess) return error;
  Driver& d = driver();
  if (bytes > d.total_bytes - d.used_bytes) return last_error = cudaErrorMemoryAllocation;
  *data = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  blocks[*data] = bytes;
  d.used_bytes += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  const std::lock_guard lock(mutex);
  const auto block = blocks.find(data);
  if (block == blocks.end()) return cudaErrorInvalidValue;
  if (const auto error = log_call("cudaFree " + std::to_string(block->second)); error != cudaSuccess) return error;
  driver().used_bytes -= block->second;
  blocks.erase(block);
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  *data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = driver().total_bytes;
  *free = driver().total_bytes - driver().used_bytes;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  const auto error = log_call("copy " + std::to_string(bytes));
  if (error == cudaSuccess) submit(stream, [=] { std::memmove(to, from, bytes); });
  return error;
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  const auto error = log_call("set " + std::to_string(bytes));
  if (error == cudaSuccess) submit(stream, [=] { std::memset(data, value, bytes); });
  return error;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new EmulatedStream;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream && stream->capturing) {
    stream->spoiled = true;
    return last_error = cudaErrorStreamCaptureUnsupported;
  }
  wait_for(last_of(stream));
  return log_call("synchronize");
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return is_done(last_of(stream)) ? cudaSuccess : cudaErrorNotReady; }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  // A stream remembers only one completion. So this call first waits for other work that is under way in the stream.
  if (!captured_stream && !is_done(event->after)) {
    if (last_of(stream) != event->after) wait_for(last_of(stream));
    set_last(stream, event->after);
  }
  return log_call("stream waits");
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new EmulatedEvent;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (!captured_stream) event->after = last_of(stream);
  return log_call("record event");
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return is_done(event->after) ? cudaSuccess : cudaErrorNotReady; }
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  wait_for(event->after);
  return log_call("synchronize event");
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::lock_guard lock(mutex);
  stream->capturing = new EmulatedGraph;
  captured_stream = stream;
  return log_call("begin capture");
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = captured_stream ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  *mode = cudaStreamCaptureModeGlobal;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(mutex);
  *graph = std::exchange(stream->capturing, nullptr);
  captured_stream = nullptr;
  if (std::exchange(stream->spoiled, false)) {
    delete std::exchange(*graph, nullptr);
    return last_error = cudaErrorStreamCaptureInvalidated;
  }
  const auto error = log_call("end capture");
  if (error != cudaSuccess) delete std::exchange(*graph, nullptr);
  return error;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = new EmulatedGraph(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t) {
  const auto error = log_call("launch graph");
  if (error != cudaSuccess) return error;
  for (const auto& work : executable->work) work();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
