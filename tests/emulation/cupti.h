// Replaces CUPTI's header, and declares what core/cuda/gpu_trace.cpp uses. The library is
// tests/support/emulated_cupti.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

constexpr std::uint32_t CUPTI_API_VERSION = 130000;

enum CUptiResult { CUPTI_SUCCESS = 0, CUPTI_ERROR_INVALID_PARAMETER = 1, CUPTI_ERROR_MAX_LIMIT_REACHED = 12 };
enum CUpti_ActivityKind {
  CUPTI_ACTIVITY_KIND_MEMCPY = 1,
  CUPTI_ACTIVITY_KIND_MEMSET = 2,
  CUPTI_ACTIVITY_KIND_KERNEL = 3,
  CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10
};
enum {
  CUPTI_ACTIVITY_MEMCPY_KIND_HTOD = 1,
  CUPTI_ACTIVITY_MEMCPY_KIND_DTOH = 2,
  CUPTI_ACTIVITY_MEMCPY_KIND_DTOD = 8,
  CUPTI_ACTIVITY_MEMCPY_KIND_PTOP = 10
};
constexpr std::uint32_t CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1;

struct CUpti_Activity {
  CUpti_ActivityKind kind;
};
struct CUpti_ActivityKernel9 : CUpti_Activity {
  std::uint16_t registersPerThread;
  std::uint64_t start, end;
  std::uint32_t deviceId, streamId;
  std::int32_t gridX, gridY, gridZ, blockX, blockY, blockZ;
  const char* name;
};
struct CUpti_ActivityMemcpy5 : CUpti_Activity {
  std::uint8_t copyKind;
  std::uint64_t bytes, start, end;
  std::uint32_t deviceId, streamId;
};
struct CUpti_ActivityMemset4 : CUpti_Activity {
  std::uint64_t bytes, start, end;
  std::uint32_t deviceId, streamId;
};

struct EmulatedContext;
using CUcontext = EmulatedContext*;
using CUpti_TimestampCallbackFunc = std::uint64_t (*)();
using CUpti_BuffersCallbackRequestFunc = void (*)(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most);
using CUpti_BuffersCallbackCompleteFunc = void (*)(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                                                   std::size_t bytes, std::size_t filled);

extern "C" {
CUptiResult cuptiGetVersion(std::uint32_t* version);
CUptiResult cuptiGetResultString(CUptiResult result, const char** text);
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock);
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc give,
                                           CUpti_BuffersCallbackCompleteFunc take);
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind);
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind);
CUptiResult cuptiActivityFlushPeriod(std::uint32_t milliseconds);
CUptiResult cuptiActivityFlushAll(std::uint32_t flags);
CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t filled, CUpti_Activity** record);
}
