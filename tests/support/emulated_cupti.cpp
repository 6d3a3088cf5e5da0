// A library that replaces CUPTI. When it is flushed, it delivers one record of each enabled kind, as if from a GPU. The
// environment variable TANDEM_EMULATED_CUPTI chooses a failure: "version" (the library has a different version) or
// "enable" (another profiler uses the GPU).
#include <cupti.h>

#include <cstdlib>
#include <new>
#include <set>
#include <string>

namespace {

CUpti_TimestampCallbackFunc clock_of_trace = nullptr;
CUpti_BuffersCallbackRequestFunc give_buffer = nullptr;
CUpti_BuffersCallbackCompleteFunc take_buffer = nullptr;
std::set<CUpti_ActivityKind> enabled;

bool goes_wrong(const char* what) {
  const char* const given = std::getenv("TANDEM_EMULATED_CUPTI");
  return given && std::string(given) == what;
}

// Each record starts at a multiple of this number of bytes.
constexpr std::size_t place = 128;

template <class Record>
void put(std::uint8_t* buffer, std::size_t& filled, const Record& record) {
  static_assert(sizeof(Record) <= place);
  if (!enabled.contains(record.kind)) return;
  new (buffer + filled) Record(record);
  filled += place;
}

}  // namespace

CUptiResult cuptiGetVersion(std::uint32_t* version) {
  *version = goes_wrong("version") ? 120000 : CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  clock_of_trace = clock;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc give,
                                           CUpti_BuffersCallbackCompleteFunc take) {
  give_buffer = give;
  take_buffer = take;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (kind == CUPTI_ACTIVITY_KIND_MEMSET && goes_wrong("enable")) return CUPTI_ERROR_INVALID_PARAMETER;
  enabled.insert(kind);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  enabled.erase(kind);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushPeriod(std::uint32_t) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityFlushAll(std::uint32_t) {
  std::uint8_t* buffer = nullptr;
  std::size_t bytes = 0, most = 0, filled = 0;
  give_buffer(&buffer, &bytes, &most);
  const std::uint64_t now = clock_of_trace();
  put(buffer, filled,
      CUpti_ActivityKernel9{{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL},
                            40,
                            now,
                            now + 5000,
                            0,
                            7,
                            12,
                            2,
                            1,
                            256,
                            1,
                            1,
                            "_ZN6tandem4cuda8sum_rowsEv"});
  put(buffer, filled,
      CUpti_ActivityMemcpy5{
          {CUPTI_ACTIVITY_KIND_MEMCPY}, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, 4096, now + 6000, now + 7000, 0, 8});
  // A time that was not measured is 0.
  put(buffer, filled,
      CUpti_ActivityMemcpy5{{CUPTI_ACTIVITY_KIND_MEMCPY}, CUPTI_ACTIVITY_MEMCPY_KIND_PTOP, 4096, 0, 0, 0, 8});
  put(buffer, filled, CUpti_ActivityMemset4{{CUPTI_ACTIVITY_KIND_MEMSET}, 1600, now + 8000, now + 9000, 0, 7});
  take_buffer(nullptr, 0, buffer, bytes, filled);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t filled, CUpti_Activity** record) {
  auto* const next = *record ? reinterpret_cast<std::uint8_t*>(*record) + place : buffer;
  if (next >= buffer + filled) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
