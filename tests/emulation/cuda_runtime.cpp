// Implements the emulated driver's memory, errors and log. streams.h describes the order of work.
#include "device_memory.h"
#include "streams.h"
#include "work_log.h"

#include <cstdio>
#include <map>
#include <mutex>

namespace emulation {
namespace {

std::mutex mutex;  // guards the variables below and the driver's state
struct MemoryBlock {
  std::size_t bytes;
  int device;
};
std::map<void*, MemoryBlock> blocks;

// Aborts unless `kind` matches the two places of the copy.
void check_kind(const void* to, const void* from, cudaMemcpyKind kind) {
  const bool to_gpu = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_gpu = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if ((place_of(to) == Place::gpu) != to_gpu || (place_of(from) == Place::gpu) != from_gpu)
    die("a copy from %p to %p is not of the kind that the call says", from, to);
}

}  // namespace

cudaError_t log_call(const std::string& call) {
  const std::lock_guard lock(mutex);
  Driver& d = driver();
  d.log.push_back(call);
  if (d.is_lost) return failed(cudaErrorIllegalAddress);
  if (d.failing_call.empty() || call.find(d.failing_call) != 0) return cudaSuccess;
  d.failing_call.clear();
  return failed(d.failure);
}

Driver& driver() {
  static auto* instance = new Driver;
  return *instance;
}

}  // namespace emulation

using namespace emulation;

cudaError_t cudaGetDeviceCount(int* count) {
  TANDEM_NOT_FORKED;
  *count = driver().devices;
  return *count > 0 ? cudaSuccess : failed(cudaErrorNoDevice);
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  TANDEM_NOT_FORKED;
  std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02x:00.0", driver().are_slices ? 1 : device + 1);
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  TANDEM_NOT_FORKED;
  *properties = {};
  properties->uuid.bytes[0] = static_cast<char>(device);
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInitializationError: return "cudaErrorInitializationError";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureUnjoined: return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation: return "cudaErrorStreamCaptureIsolation";
    case cudaErrorCapturedEvent: return "cudaErrorCapturedEvent";
    default: return "cudaError";
  }
}
const char* cudaGetErrorString(cudaError_t) { return "as the test wished"; }

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  TANDEM_NOT_FORKED;
  if (const auto error = check_captures(); error != cudaSuccess) return error;
  if (const auto error = log_call("cudaMalloc " + std::to_string(bytes)); error != cudaSuccess) return error;
  const std::lock_guard lock(mutex);
  Driver& d = driver();
  if (bytes > d.total_bytes - d.used_bytes) return failed(cudaErrorMemoryAllocation);
  *data = allocate_on_gpu(bytes);
  blocks[*data] = {bytes, current_device()};
  d.used_bytes += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  TANDEM_NOT_FORKED;
  if (const auto error = check_captures(); error != cudaSuccess) return error;
  MemoryBlock block{};
  {
    const std::lock_guard lock(mutex);
    const auto found = blocks.find(data);
    if (found == blocks.end()) return failed(cudaErrorInvalidValue);
    block = found->second;
  }
  if (const auto error = log_call("cudaFree " + std::to_string(block.bytes)); error != cudaSuccess) return error;
  wait_for_gpu(block.device);
  const std::lock_guard lock(mutex);
  driver().used_bytes -= block.bytes;
  blocks.erase(data);
  free_on_gpu(data);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  TANDEM_NOT_FORKED;
  if (const auto error = check_captures(); error != cudaSuccess) return error;
  *data = allocate_pinned(bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  TANDEM_NOT_FORKED;
  free_pinned(data);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  TANDEM_NOT_FORKED;
  const std::lock_guard lock(mutex);
  *total = driver().total_bytes;
  *free = driver().total_bytes - driver().used_bytes;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  TANDEM_NOT_FORKED;
  check_kind(to, from, kind);
  if (const auto error = log_call("copy " + std::to_string(bytes)); error != cudaSuccess) return error;
  note_work(stream, "copy");
  if (place_of(from) == Place::pageable) {
    const auto begin = static_cast<const char*>(from);
    submit_work(stream,
                [=, staged = std::vector<char>(begin, begin + bytes)] { std::memmove(to, staged.data(), bytes); });
    return cudaSuccess;
  }
  submit_work(stream, [=] { std::memmove(to, from, bytes); });
  if (place_of(to) == Place::pageable && !is_captured(stream)) wait_for_stream(stream);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  TANDEM_NOT_FORKED;
  const auto error = log_call("set " + std::to_string(bytes));
  note_work(stream, "set");
  if (error == cudaSuccess) submit_work(stream, [=] { std::memset(data, value, bytes); });
  return error;
}
