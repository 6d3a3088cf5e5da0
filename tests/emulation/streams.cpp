#include "streams.h"
#include "device_memory.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <utility>

namespace emulation {

// What was captured. `after` are the nodes that a node waits for.
struct Recording {
  struct Node {
    Start start;
    std::vector<std::size_t> after;
  };
  std::vector<Node> nodes;
  std::vector<std::shared_ptr<void>> held;
  std::vector<cudaStream_t> streams;  // that are captured; the first of them began it
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool is_spoiled = false;
};

}  // namespace emulation

using emulation::Completion;
using emulation::Recording;

struct EmulatedStream {
  int device = 0;
  std::uint64_t asked = 0, done = 0;  // pieces of work
  struct Item {
    std::function<bool()> advance;  // true when it is done
    std::uint64_t number;
    std::chrono::steady_clock::time_point since;
  };
  std::deque<Item> queue;
  bool is_destroyed = false;
  std::shared_ptr<Recording> capture;
  std::vector<std::size_t> latest;  // the nodes that the next node of this stream waits for
};
struct EmulatedEvent {
  bool has_timing = false;
  std::shared_ptr<Completion> after;
  std::weak_ptr<Recording> capture;
  bool is_captured = false;
  std::vector<std::size_t> latest;
};
struct EmulatedGraph {
  std::shared_ptr<Recording> recording;
};

namespace emulation {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds late{2};  // work that nobody waits for begins so much later

// Never destroyed: the thread that is the GPU outlives main().
std::mutex& mutex = *new std::mutex;  // guards everything here
std::condition_variable& changed = *new std::condition_variable;
std::uint64_t changes = 0, numbers = 0;
int waiting = 0;  // threads on the host that wait for the GPU
auto& streams = *new std::vector<cudaStream_t>;
auto& captures = *new std::vector<std::weak_ptr<Recording>>;
thread_local cudaError_t last_error = cudaSuccess;
thread_local int device_of_thread = 0;
thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;

void notify() {
  ++changes;
  changed.notify_all();
}

bool is_open(const std::shared_ptr<Completion>& completion) { return completion && completion->open > 0; }

// Begins a piece of work once, and says whether it is done.
std::function<bool()> begin_and_wait(Start start) {
  struct State {
    Start start;
    bool begun = false;
    std::shared_ptr<Completion> open;
  };
  return [state = std::make_shared<State>(State{std::move(start), false, nullptr})] {
    if (!std::exchange(state->begun, true)) {
      const OnGpu gpu;
      state->open = state->start();
    }
    return is_done(state->open);
  };
}

// One launch of a graph. Of the nodes that may begin, the one that was recorded last begins first.
class Replay {
 public:
  explicit Replay(std::shared_ptr<Recording> recording) : recording_(std::move(recording)) {
    missing_.resize(recording_->nodes.size());
    next_.resize(recording_->nodes.size());
    for (std::size_t i = 0; i < missing_.size(); ++i) {
      missing_[i] = recording_->nodes[i].after.size();
      for (const auto before : recording_->nodes[i].after) next_[before].push_back(i);
      if (missing_[i] == 0) ready_.push(i);
    }
  }

  bool advance() {
    for (;;) {
      if (!ready_.empty()) {
        const std::size_t node = ready_.top();
        ready_.pop();
        const OnGpu gpu;
        open_.emplace_back(node, recording_->nodes[node].start());
      }
      const auto done = std::find_if(open_.begin(), open_.end(), [](const auto& o) { return is_done(o.second); });
      if (done != open_.end()) {
        for (const auto after : next_[done->first])
          if (--missing_[after] == 0) ready_.push(after);
        open_.erase(done);
        ++done_;
      } else if (ready_.empty()) {
        return done_ == missing_.size();
      }
    }
  }

 private:
  const std::shared_ptr<Recording> recording_;
  std::vector<std::size_t> missing_;
  std::vector<std::vector<std::size_t>> next_;
  std::priority_queue<std::size_t> ready_;
  std::vector<std::pair<std::size_t, std::shared_ptr<Completion>>> open_;
  std::size_t done_ = 0;
};

// Lets the work at the front of one stream go on. Returns whether a piece of work was finished.
bool take_a_step(std::unique_lock<std::mutex>& lock) {
  const auto now = Clock::now();
  std::vector<cudaStream_t> order;
  for (const auto stream : streams) {
    if (!stream->queue.empty() && (waiting > 0 || now - stream->queue.front().since > late)) order.push_back(stream);
  }
  std::sort(order.begin(), order.end(),
            [](auto* a, auto* b) { return a->queue.front().number > b->queue.front().number; });
  for (const auto stream : order) {
    const auto advance = stream->queue.front().advance;
    lock.unlock();
    const bool is_finished = advance();
    lock.lock();
    if (!is_finished) continue;
    stream->queue.pop_front();
    ++stream->done;
    if (stream->queue.empty() && stream->is_destroyed) {
      std::erase(streams, stream);
      delete stream;
    }
    notify();
    return true;
  }
  return false;
}

void be_the_gpu() {
  take_fault_stack();
  omp_set_num_threads(1);  // the threads of a team would not be the GPU
  std::unique_lock lock(mutex);
  for (;;) {
    const auto before = changes;
    try {
      if (take_a_step(lock)) continue;
    } catch (const std::exception& error) {
      die("%s", error.what());
    }
    const bool is_idle = std::all_of(streams.begin(), streams.end(), [](auto* s) { return s->queue.empty(); });
    const auto news = [&] { return changes != before; };
    if (is_idle) changed.wait(lock, news);
    else changed.wait_for(lock, late / 2, news);
  }
}

template <class Done>
void wait_until(std::unique_lock<std::mutex>& lock, Done done) {
  ++waiting;
  notify();
  changed.wait(lock, done);
  --waiting;
}

void push(cudaStream_t stream, std::function<bool()> advance) {
  static const auto* gpu = new std::thread(be_the_gpu);  // never joined: it ends with the process
  static_cast<void>(gpu);
  stream->queue.push_back({std::move(advance), ++numbers, Clock::now()});
  ++stream->asked;
  notify();
}

void add_node(EmulatedStream& stream, Start start) {
  auto& nodes = stream.capture->nodes;
  nodes.push_back({std::move(start), stream.latest});
  stream.latest = {nodes.size() - 1};
}

cudaStream_t stream_or_default(cudaStream_t stream) {
  if (!stream) die("work in the default stream, which waits for all others: pass a stream");
  return stream;
}

cudaError_t spoil(Recording& capture, cudaError_t error) {
  capture.is_spoiled = true;
  return failed(error);
}

// Whether all that was captured comes before what the first stream does next.
bool is_joined(const Recording& capture) {
  std::vector<bool> reached(capture.nodes.size());
  std::vector<std::size_t> open = capture.streams.front()->latest;
  while (!open.empty()) {
    const auto node = open.back();
    open.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    open.insert(open.end(), capture.nodes[node].after.begin(), capture.nodes[node].after.end());
  }
  return std::all_of(reached.begin(), reached.end(), [](bool r) { return r; });
}

}  // namespace

void complete(Completion& completion) {
  const std::lock_guard lock(mutex);
  if (--completion.open > 0) return;
  completion.end = Clock::now();
  notify();
}
bool is_done(const std::shared_ptr<Completion>& completion) {
  const std::lock_guard lock(mutex);
  return !is_open(completion);
}

void submit(cudaStream_t stream, Start work, std::shared_ptr<void> held) {
  const std::lock_guard lock(mutex);
  if (!stream_or_default(stream)->capture) return push(stream, begin_and_wait(std::move(work)));
  add_node(*stream, std::move(work));
  if (held) stream->capture->held.push_back(std::move(held));
}
void submit_work(cudaStream_t stream, std::function<void()> work) {
  submit(stream, [work = std::move(work)]() -> std::shared_ptr<Completion> {
    work();
    return nullptr;
  });
}
bool is_captured(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  return stream_or_default(stream)->capture != nullptr;
}

void wait_for_stream(cudaStream_t stream) {
  std::unique_lock lock(mutex);
  wait_until(lock, [&, asked = stream->asked] { return stream->done >= asked; });
}
void wait_for_gpu(int device) {
  std::unique_lock lock(mutex);
  wait_until(lock, [&] {
    return std::all_of(streams.begin(), streams.end(),
                       [&](auto* stream) { return stream->device != device || stream->queue.empty(); });
  });
}

cudaError_t failed(cudaError_t error) { return last_error = error; }
int current_device() { return device_of_thread; }

cudaError_t check_captures() {
  const std::lock_guard lock(mutex);
  if (mode_of_thread == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  for (const auto& weak : captures) {
    const auto capture = weak.lock();
    if (!capture || capture->streams.empty() || capture->mode == cudaStreamCaptureModeRelaxed) continue;
    const bool is_own = capture->thread == std::this_thread::get_id();
    if (is_own || (capture->mode == cudaStreamCaptureModeGlobal && mode_of_thread == cudaStreamCaptureModeGlobal))
      return spoil(*capture, cudaErrorStreamCaptureUnsupported);
  }
  return cudaSuccess;
}

}  // namespace emulation

using namespace emulation;

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaGetDevice(int* device) {
  *device = device_of_thread;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= driver().devices) return failed(cudaErrorInvalidDevice);
  if (driver().is_lost) return failed(cudaErrorIllegalAddress);
  device_of_thread = device;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::lock_guard lock(mutex);
  *stream = new EmulatedStream;
  (*stream)->device = device_of_thread;
  streams.push_back(*stream);
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
  const std::lock_guard lock(mutex);
  if (stream->capture) die("a stream is destroyed while it is captured");
  stream->is_destroyed = true;
  if (!stream->queue.empty()) return cudaSuccess;  // goes when its work is done
  std::erase(streams, stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  {
    const std::lock_guard lock(mutex);
    if (stream_or_default(stream)->capture) return spoil(*stream->capture, cudaErrorStreamCaptureUnsupported);
  }
  wait_for_stream(stream);
  return log_call("synchronize");
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  if (stream_or_default(stream)->capture) return spoil(*stream->capture, cudaErrorStreamCaptureUnsupported);
  return stream->queue.empty() ? cudaSuccess : failed(cudaErrorNotReady);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  {
    const std::lock_guard lock(mutex);
    auto& capture = stream_or_default(stream)->capture;
    if (event->is_captured) {
      const auto from = event->capture.lock();
      if (!from || from->streams.empty()) return failed(cudaErrorCapturedEvent);
      if (capture && capture != from) return spoil(*capture, cudaErrorStreamCaptureIsolation);
      if (!capture) {
        stream->latest.clear();
        from->streams.push_back(stream);
        capture = from;
      }
      for (const auto node : event->latest)
        if (std::find(stream->latest.begin(), stream->latest.end(), node) == stream->latest.end())
          stream->latest.push_back(node);
    } else if (capture) {
      return spoil(*capture, cudaErrorStreamCaptureIsolation);
    } else if (is_open(event->after)) {
      push(stream, [after = event->after] { return is_done(after); });
    }
  }
  return log_call("stream waits");
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new EmulatedEvent;
  (*event)->has_timing = !(flags & cudaEventDisableTiming);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  {
    const std::lock_guard lock(mutex);
    event->is_captured = stream_or_default(stream)->capture != nullptr;
    event->capture = stream->capture;
    event->latest = stream->latest;
    if (!event->is_captured) {
      event->after = std::make_shared<Completion>();
      push(stream, [after = event->after] {
        complete(*after);
        return true;
      });
    }
  }
  return log_call("record event");
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const auto error = check_captures(); error != cudaSuccess) return error;
  const std::lock_guard lock(mutex);
  if (event->is_captured) return failed(cudaErrorCapturedEvent);
  return is_open(event->after) ? failed(cudaErrorNotReady) : cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const auto error = check_captures(); error != cudaSuccess) return error;
  {
    std::unique_lock lock(mutex);
    if (event->is_captured) return failed(cudaErrorCapturedEvent);
    wait_until(lock, [after = event->after] { return !is_open(after); });
  }
  return log_call("synchronize event");
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t last) {
  const std::lock_guard lock(mutex);
  for (const auto event : {first, last}) {
    if (!event->has_timing || !event->after) return failed(cudaErrorInvalidValue);
    if (is_open(event->after)) return failed(cudaErrorNotReady);
  }
  *milliseconds = std::chrono::duration<float, std::milli>(last->after->end - first->after->end).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  {
    const std::lock_guard lock(mutex);
    if (stream_or_default(stream)->capture) return spoil(*stream->capture, cudaErrorIllegalState);
    stream->capture = std::make_shared<Recording>();
    stream->capture->mode = mode;
    stream->capture->thread = std::this_thread::get_id();
    stream->capture->streams = {stream};
    stream->latest.clear();
    std::erase_if(captures, [](const auto& capture) { return capture.expired(); });
    captures.push_back(stream->capture);
  }
  return log_call("begin capture");
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(mutex);
  const auto& capture = stream_or_default(stream)->capture;
  *status = !capture              ? cudaStreamCaptureStatusNone
            : capture->is_spoiled ? cudaStreamCaptureStatusInvalidated
                                  : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, mode_of_thread);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  std::shared_ptr<Recording> capture;
  bool joined = false;
  {
    const std::lock_guard lock(mutex);
    capture = stream_or_default(stream)->capture;
    if (!capture || capture->streams.front() != stream) return failed(cudaErrorIllegalState);
    joined = is_joined(*capture);
    for (const auto one : capture->streams) one->capture = nullptr;
    capture->streams.clear();
  }
  if (capture->is_spoiled) return failed(cudaErrorStreamCaptureInvalidated);
  if (!joined) return failed(cudaErrorStreamCaptureUnjoined);
  const auto error = log_call("end capture");
  if (error == cudaSuccess) *graph = new EmulatedGraph{std::move(capture)};
  return error;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = new EmulatedGraph(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const auto error = log_call("launch graph");
  if (error != cudaSuccess) return error;
  const std::lock_guard lock(mutex);
  if (stream_or_default(stream)->capture) return spoil(*stream->capture, cudaErrorStreamCaptureUnsupported);
  push(stream, [replay = std::make_shared<Replay>(executable->recording)] { return replay->advance(); });
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
