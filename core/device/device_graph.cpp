#include <tandem/core/base/check.h>
#include <tandem/core/device/device_graph.h>

#include <utility>

namespace tandem {

namespace {

#ifdef TANDEM_HAS_CUDA
GraphRecorder recorder = record_cuda_graph;
#else
GraphRecorder recorder = nullptr;
#endif
thread_local bool is_recording = false;

}  // namespace

std::unique_ptr<DeviceGraph> record_graph(Device device, const std::function<void()>& work) {
  TANDEM_CHECK(!device.is_cpu(), "the cpu device records no graphs");
  TANDEM_CHECK(recorder, device, ": this build has no CUDA back-end (cmake --preset cuda)");
  TANDEM_CHECK(!is_recording, "record_graph: this thread is recording a graph already");
  struct Recording {
    Recording() { is_recording = true; }
    ~Recording() { is_recording = false; }
  } const recording;
  return recorder(device, work);
}

bool is_recording_graph() { return is_recording; }

void set_graph_recorder(GraphRecorder given) { recorder = given; }

}  // namespace tandem
