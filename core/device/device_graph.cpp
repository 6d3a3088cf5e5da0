#include <tandem/core/backend/backend.h>
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
thread_local std::uint64_t recordings = 0;  // so far
thread_local bool is_recording = false;
thread_local std::uint64_t replays = 0;
// Of the graph that is recorded:
thread_local std::vector<std::function<void()>> before;
thread_local char* memory = nullptr;
thread_local std::size_t memory_used = 0;
constexpr std::size_t memory_bytes = 64 * 1024;

}  // namespace

DeviceGraph::~DeviceGraph() {
  try {
    if (memory_) backend(device_).deallocate(memory_, memory_bytes);
  } catch (const std::exception&) {  // a GPU that has failed: its memory is lost
  }
}

void DeviceGraph::replay() {
  ++replays;
  for (const auto& work : before_) work();
  start();
}

std::unique_ptr<DeviceGraph> record_graph(Device device, const std::function<void()>& work) {
  TANDEM_CHECK(!device.is_cpu(), "the cpu device records no graphs");
  TANDEM_CHECK(recorder, device, ": this build has no CUDA back-end (cmake --preset cuda)");
  TANDEM_CHECK(!is_recording, "record_graph: this thread is recording a graph already");
  struct Recording {
    explicit Recording(Device device) : device(device) {
      is_recording = true;
      ++recordings;
    }
    ~Recording() {
      is_recording = false;
      before.clear();
      if (memory) backend(device).deallocate(std::exchange(memory, nullptr), memory_bytes);
    }
    const Device device;
  } const recording(device);
  // The first memory of a recording: nothing that is recorded has used it.
  auto graph = recorder(device, [&] {
    memory = static_cast<char*>(backend(device).allocate(memory_bytes));
    memory_used = 0;
    work();
  });
  graph->before_ = std::exchange(before, {});
  graph->device_ = device;
  graph->memory_ = std::exchange(memory, nullptr);
  return graph;
}

void* allocate_in_graph(std::size_t bytes) {
  TANDEM_CHECK(memory, "allocate_in_graph: this thread records no graph");
  const std::size_t rounded = (bytes + 15) / 16 * 16;
  TANDEM_CHECK(rounded <= memory_bytes - memory_used, "allocate_in_graph: a recorded step has no more than ",
               memory_bytes, " bytes for what each replay draws anew");
  return memory + std::exchange(memory_used, memory_used + rounded);
}

void before_replay(std::function<void()> work) {
  TANDEM_CHECK(is_recording, "before_replay: this thread records no graph");
  before.push_back(std::move(work));
}

std::uint64_t recording_number() { return is_recording ? recordings : 0; }

bool is_recording_graph() { return is_recording; }

std::uint64_t replays_so_far() { return replays; }

void set_graph_recorder(GraphRecorder given) { recorder = given; }

}  // namespace tandem
