#include <tandem/core/backend/backend.h>
#include <tandem/core/backend/device_graph.h>
#include <tandem/core/base/annex.h>
#include <tandem/core/base/check.h>

#include <utility>

namespace tandem {

namespace {

GraphRecorder recorder = nullptr;
thread_local std::uint64_t recordings = 0;  // started so far on this thread
thread_local std::uint64_t replays = 0;
constexpr std::size_t memory_bytes = 64 * 1024;

struct GraphRecording final : Recording {
  explicit GraphRecording(Device device) : device(device) { ++recordings; }
  ~GraphRecording() {
    if (memory) backend(device).allocator().deallocate(memory, memory_bytes);
  }

  std::uint64_t number() const override { return recordings; }
  void before_replay(std::function<void()> work) override { before.push_back(std::move(work)); }
  void* allocate(std::size_t bytes) override {
    const std::size_t rounded = (bytes + 15) / 16 * 16;
    TANDEM_CHECK(rounded <= memory_bytes - memory_used, "Recording::allocate: a recorded step may allocate at most ",
                 memory_bytes, " bytes for the values that each replay writes");
    return memory + std::exchange(memory_used, memory_used + rounded);
  }

  const Device device;
  std::vector<std::function<void()>> before;
  char* memory = nullptr;
  std::size_t memory_used = 0;
};

}  // namespace

DeviceGraph::~DeviceGraph() {
  try {
    if (memory_) backend(device_).allocator().deallocate(memory_, memory_bytes);
  } catch (const std::exception&) {  // a failed GPU: its memory is lost
  }
}

void DeviceGraph::replay() {
  ++replays;
  for (const auto& work : before_) work();
  start();
}

std::unique_ptr<DeviceGraph> record_graph(Device device, const std::function<void()>& work) {
  TANDEM_CHECK(!device.is_cpu(), "record_graph: the cpu device can't record graphs");
  add_core_annexes();
  TANDEM_CHECK(recorder, device, ": this build has no CUDA back-end (cmake --preset cuda)");
  TANDEM_CHECK(!is_recording_graph(), "record_graph: this thread is already recording a graph");
  GraphRecording recording(device);
  // Allocated first, before any recorded work can use this memory.
  auto graph = recorder(device, [&] {
    recording.memory = static_cast<char*>(backend(device).allocator().allocate(memory_bytes));
    work();
  });
  graph->before_ = std::exchange(recording.before, {});
  graph->device_ = device;
  graph->memory_ = std::exchange(recording.memory, nullptr);
  return graph;
}

std::uint64_t replays_so_far() { return replays; }

void set_graph_recorder(GraphRecorder given) { recorder = given; }

}  // namespace tandem
