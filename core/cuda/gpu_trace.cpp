// Records the work of NVIDIA's GPUs while a profile is written. The records come from CUPTI, NVIDIA's library for
// profilers. CUPTI is loaded only when a trace is started, so programs start without it.
// https://docs.nvidia.com/cupti/main/main.html ("CUPTI Activity API").
#include <tandem/core/profile/gpu_trace.h>

#ifdef TANDEM_CUPTI_LIBRARY

#include <tandem/core/profile/profile_lanes.h>

#include <cupti.h>
#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>

namespace tandem::cuda {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;
constexpr std::uint32_t hand_over_period = 250;  // milliseconds; the trace is written as often
constexpr CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                        CUPTI_ACTIVITY_KIND_MEMSET};

struct Cupti {
  decltype(&cuptiGetVersion) get_version;
  decltype(&cuptiGetResultString) result_string;
  decltype(&cuptiActivityRegisterTimestampCallback) register_clock;
  decltype(&cuptiActivityRegisterCallbacks) register_buffers;
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityDisable) disable;
  decltype(&cuptiActivityFlushPeriod) flush_period;
  decltype(&cuptiActivityFlushAll) flush_all;
  decltype(&cuptiActivityGetNextRecord) next_record;
};
Cupti cupti{};
bool is_running = false;

// Loads CUPTI. Returns "", or a description of the problem.
std::string load() {
  if (cupti.get_version) return "";
  // The first path is this machine's, the second is that of the machine on which this program was built.
  const std::filesystem::path built_with = TANDEM_CUPTI_LIBRARY;
  void* library = dlopen(built_with.filename().c_str(), RTLD_NOW);
  if (!library) library = dlopen(built_with.c_str(), RTLD_NOW);
  if (!library) return "CUPTI is not installed here (" + built_with.filename().string() + ")";
  Cupti found{};
  bool all = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    all = all && function;
  };
  find(found.get_version, "cuptiGetVersion");
  find(found.result_string, "cuptiGetResultString");
  find(found.register_clock, "cuptiActivityRegisterTimestampCallback");
  find(found.register_buffers, "cuptiActivityRegisterCallbacks");
  find(found.enable, "cuptiActivityEnable");
  find(found.disable, "cuptiActivityDisable");
  find(found.flush_period, "cuptiActivityFlushPeriod");
  find(found.flush_all, "cuptiActivityFlushAll");
  find(found.next_record, "cuptiActivityGetNextRecord");
  std::uint32_t version = 0;
  if (!all || found.get_version(&version) != CUPTI_SUCCESS) return "this CUPTI lacks some of what is needed";
  // The layout of CUPTI's records belongs to one version.
  if (version != CUPTI_API_VERSION)
    return "CUPTI here is version " + std::to_string(version) + ", this build knows " +
           std::to_string(CUPTI_API_VERSION);
  cupti = found;
  return "";
}

std::string problem(CUptiResult result, const char* doing) {
  const char* text = "";
  cupti.result_string(result, &text);
  return std::string("CUPTI could not ") + doing + ": " + text;
}

std::string readable(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         std::free);
  return text ? text.get() : name;
}

std::string note(const char* key, const std::string& value) { return '"' + std::string(key) + "\":" + value; }

const char* name_of_copy(int kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: return "copy host to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: return "copy device to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD: return "copy device to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP: return "copy between devices";
    default: return "copy";
  }
}

// Adds a range from the members that all kinds of records have.
template <class Record>
void add(const Record& record, const std::string& name, const std::string& notes) {
  const std::string lane = "GPU " + std::to_string(record.deviceId) + ", stream " + std::to_string(record.streamId);
  // A start of 0 means that the time was not measured.
  if (record.start != 0 && record.end >= record.start)
    detail::profile_range(lane, name, static_cast<std::int64_t>(record.start), static_cast<std::int64_t>(record.end),
                          notes);
}

// Each version of a record begins with the members of the versions before it. The versions here are the oldest that
// have what is read.
void add(const CUpti_Activity& activity) {
  switch (activity.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL: {
      const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel9&>(activity);
      const auto size = [](int x, int y, int z) {
        return '"' + std::to_string(x) + " x " + std::to_string(y) + " x " + std::to_string(z) + '"';
      };
      return add(kernel, readable(kernel.name),
                 note("grid", size(kernel.gridX, kernel.gridY, kernel.gridZ)) + ',' +
                     note("block", size(kernel.blockX, kernel.blockY, kernel.blockZ)) + ',' +
                     note("registers", std::to_string(kernel.registersPerThread)));
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy5&>(activity);
      return add(copy, name_of_copy(copy.copyKind), note("bytes", std::to_string(copy.bytes)));
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& fill = reinterpret_cast<const CUpti_ActivityMemset4&>(activity);
      return add(fill, "fill", note("bytes", std::to_string(fill.bytes)));
    }
    default: return;
  }
}

// The functions that CUPTI calls, on its own threads. No exception may leave them.
std::uint64_t clock_of_the_trace() { return static_cast<std::uint64_t>(detail::profile_now()); }

void give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, buffer_bytes));
  *bytes = *buffer ? buffer_bytes : 0;
  *most_records = 0;  // 0: as many records as fit
}

void take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t filled) {
  try {
    CUpti_Activity* record = nullptr;
    while (cupti.next_record(buffer, filled, &record) == CUPTI_SUCCESS) add(*record);
  } catch (const std::exception&) {
    // There is no memory left, so the rest of this buffer is missing from the trace.
  }
  std::free(buffer);
}

// The reasons for "no": there is no CUPTI, its version is not the one of this build, or another profiler uses it.
std::string start() {
  if (auto missing = load(); !missing.empty()) return missing;
  if (const auto result = cupti.register_clock(clock_of_the_trace); result != CUPTI_SUCCESS)
    return problem(result, "take the clock");
  if (const auto result = cupti.register_buffers(give_buffer, take_buffer); result != CUPTI_SUCCESS)
    return problem(result, "take the buffers");
  for (const auto kind : kinds) {
    if (const auto result = cupti.enable(kind); result != CUPTI_SUCCESS) {
      for (const auto other : kinds) cupti.disable(other);
      return problem(result, "watch the GPU");
    }
  }
  cupti.flush_period(hand_over_period);
  is_running = true;
  return "";
}

void stop() {
  if (!is_running) return;
  is_running = false;
  cupti.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  for (const auto kind : kinds) cupti.disable(kind);
}

}  // namespace
}  // namespace tandem::cuda

#else

namespace tandem::cuda {
namespace {

std::string start() { return "this build found no CUPTI"; }
void stop() {}

}  // namespace
}  // namespace tandem::cuda

#endif

namespace tandem {

void add_gpu_trace() { gpu_traces.add({cuda::start, cuda::stop}); }

}  // namespace tandem
