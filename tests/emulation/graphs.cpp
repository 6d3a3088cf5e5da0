// Implements graphs: how streams are captured, and how graphs are launched.
#include "device_memory.h"
#include "random_order.h"
#include "stream_state.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace emulation {
namespace {

auto& captures = *new std::vector<std::weak_ptr<Recording>>;
thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;

// One launch of a graph. Of the nodes that can begin, the one that was recorded last mostly begins first.
class Replay {
 public:
  explicit Replay(std::shared_ptr<Recording> recording) : recording_(std::move(recording)) {
    missing_.resize(recording_->nodes.size());
    next_.resize(recording_->nodes.size());
    for (std::size_t i = 0; i < missing_.size(); ++i) {
      missing_[i] = recording_->nodes[i].after.size();
      for (const auto before : recording_->nodes[i].after) next_[before].push_back(i);
      if (missing_[i] == 0) ready_.insert(i);
    }
  }

  bool advance() {
    for (;;) {
      if (!ready_.empty()) {
        const std::size_t node = take_ready();
        const OnGpu gpu;
        open_.emplace_back(node, recording_->nodes[node].start());
      }
      const auto done = std::find_if(open_.begin(), open_.end(), [](const auto& o) { return is_done(o.second); });
      if (done != open_.end()) {
        for (const auto after : next_[done->first])
          if (--missing_[after] == 0) ready_.insert(after);
        open_.erase(done);
        ++done_;
      } else if (ready_.empty()) {
        return done_ == missing_.size();
      }
    }
  }

 private:
  std::size_t take_ready() {
    static Random random(seed_of_orders());
    const std::size_t place = random() % 4 == 0 ? random() % ready_.size() : ready_.size() - 1;
    return ready_.extract(std::next(ready_.begin(), static_cast<std::ptrdiff_t>(place))).value();
  }

  const std::shared_ptr<Recording> recording_;
  std::vector<std::size_t> missing_;
  std::vector<std::vector<std::size_t>> next_;
  std::set<std::size_t> ready_;
  std::vector<std::pair<std::size_t, std::shared_ptr<Completion>>> open_;
  std::size_t done_ = 0;
};

// Returns whether all captured work comes before the next work of the first stream.
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

void add_node(EmulatedStream& stream, Start start) {
  auto& nodes = stream.capture->nodes;
  nodes.push_back({std::move(start), stream.latest});
  stream.latest = {nodes.size() - 1};
}

cudaError_t spoil(Recording& capture, cudaError_t error) {
  capture.is_spoiled = true;
  return failed(error);
}

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

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  TANDEM_NOT_FORKED;
  {
    const std::lock_guard lock(mutex);
    if (stream_or_default(stream)->capture) return spoil(*stream->capture, cudaErrorIllegalState);
    stream->capture = std::make_shared<Recording>();
    stream->capture->mode = mode;
    stream->capture->thread = std::this_thread::get_id();
    stream->capture->streams.assign(1, stream);
    stream->latest.clear();
    std::erase_if(captures, [](const auto& capture) { return capture.expired(); });
    captures.push_back(stream->capture);
  }
  return log_call("begin capture");
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  TANDEM_NOT_FORKED;
  const std::lock_guard lock(mutex);
  const auto& capture = stream_or_default(stream)->capture;
  *status = !capture              ? cudaStreamCaptureStatusNone
            : capture->is_spoiled ? cudaStreamCaptureStatusInvalidated
                                  : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  TANDEM_NOT_FORKED;
  std::swap(*mode, mode_of_thread);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  TANDEM_NOT_FORKED;
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
  TANDEM_NOT_FORKED;
  *executable = new EmulatedGraph(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  TANDEM_NOT_FORKED;
  const auto error = log_call("launch graph");
  if (error != cudaSuccess) return error;
  const std::lock_guard lock(mutex);
  if (stream_or_default(stream)->capture) return spoil(*stream->capture, cudaErrorStreamCaptureUnsupported);
  push(stream, [replay = std::make_shared<Replay>(executable->recording)] { return replay->advance(); });
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  TANDEM_NOT_FORKED;
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  TANDEM_NOT_FORKED;
  delete executable;
  return cudaSuccess;
}
