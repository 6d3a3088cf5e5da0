// Emulates a GPU by a thread on the CPU. With this emulation, kernels and the code around them run on a machine without
// a GPU.
//
// This header replaces the CUDA toolkit's, and has the same names, as far as core/cuda/ uses them. Kernels are compiled
// as C++. A launch runs its blocks one after another, and within a block the threads one after another. But a thread
// that waits for others (__syncthreads, a shuffle) lets them run first.
//
// Tests with this emulation find wrong indices and arithmetic, and barriers that not all threads reach. They also see
// the driver calls and their order. Mistakes that cause errors on a real GPU only sometimes are errors here every time:
//   - the host accesses the GPU's memory, or a kernel accesses memory outside of all blocks (device_memory.h);
//   - the host reads before it has waited, or a stream does not wait for another one (streams.h);
//   - a graph waits for work outside of it, or does not wait for all of its streams, or a forbidden call is made during
//     a capture (streams.h);
//   - empty or too large grids and blocks, too much shared memory, reads of lanes that have left the warp
//     (kernels.cpp);
//   - a block reads what another block of its kernel has written, without fences between them (block_writes.h);
//   - a communicator ends while a graph holds its operations (nccl.cpp).
// The emulation can't find all races between threads, or measure speed. A test can set the driver's limits and
// failures, and read a log.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))
// A kernel with bounds has an aligned address, by which check_bounds recognises it.
#define __launch_bounds__(...) __attribute__((aligned(1024)))

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
inline dim3 threadIdx, blockIdx, blockDim, gridDim;

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInitializationError = 3,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorIllegalState = 401,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorAssert = 710,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorCapturedEvent = 907,
};
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone,
  cudaStreamCaptureStatusActive,
  cudaStreamCaptureStatusInvalidated
};
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
struct EmulatedStream;
struct EmulatedEvent;
struct EmulatedGraph;
using cudaStream_t = EmulatedStream*;
using cudaEvent_t = EmulatedEvent*;
using cudaGraph_t = EmulatedGraph*;
using cudaGraphExec_t = EmulatedGraph*;
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaHostAllocMapped = 2,
                   cudaHostAllocDefault = 0;

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetLastError();
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device);
struct cudaUUID_t {
  char bytes[16];
};
struct cudaDeviceProp {
  cudaUUID_t uuid;
};
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);

cudaError_t cudaMalloc(void** data, std::size_t bytes);
cudaError_t cudaFree(void* data);
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* data);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
// If the host memory is not pinned, the copy has finished with it when the call returns.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*), void* data);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t last);

// Work for a captured stream does not run, but becomes a part of the graph. A stream that waits for an event of a
// captured stream is captured too, from then on.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);

namespace emulation {

// Aborts the process if a block has more than 256 threads and the kernel at `address` has no __launch_bounds__. The
// compiler may then give each thread 255 registers, and a block has at most 65,536.
void check_bounds(std::uintptr_t address, dim3 block);
// `is_readable` says whether the kernel's pointers point to memory that a GPU can access.
void run_kernel(dim3 grid, dim3 block, bool is_readable, std::function<void()> thread);
bool is_for_gpu(const void* argument);

template <class Argument>
bool is_readable(const Argument& argument) {
  if constexpr (std::is_pointer_v<Argument>) return is_for_gpu(argument);
  return true;
}

template <class... Parameters, class... Arguments>
void run(void (*kernel)(Parameters...), dim3 grid, dim3 block, Arguments... arguments) {
  static_assert((0 + ... + sizeof(Parameters)) <= 4096, "a kernel takes at most 4096 bytes of arguments");
  check_bounds(reinterpret_cast<std::uintptr_t>(kernel), block);
  run_kernel(grid, block, (is_readable(arguments) && ...), [=] { kernel(arguments...); });
}

// Returns `memory`, whose `bytes` the threads of the running block share. For the first thread, its contents are
// undefined.
void* shared_memory(void* memory, std::size_t bytes);

void wait_for_block();
// Waits for all lanes in `mask` that have not left the kernel.
void wait_for_warp(unsigned mask);
unsigned lane();
// Aborts the process unless the lane is in `mask` and has not left the kernel.
void check_lane(unsigned lane, unsigned mask);
// See block_writes.h.
void fence();
void note_atomic(void* where, std::size_t bytes);
std::uint64_t* slots_of_warp();  // one slot for each of the 32 lanes of a warp

// The driver's state, which a test can read and change. The log has a line for each driver call that does work, such as
// "cudaMalloc 512" or "launch 4 x 256".
struct Driver {
  std::vector<std::string> log;
  std::size_t total_bytes = std::size_t{1} << 32;  // the size of the GPU's memory
  std::size_t used_bytes = 0;
  int devices = 4;
  bool are_slices = false;   // the devices are parts of one GPU, and share its PCI bus id
  std::string failing_call;  // such as "launch": the next such call fails with `failure`
  cudaError_t failure = cudaErrorLaunchFailure;
  bool is_lost = false;  // a kernel has failed, and every later call reports that
};
Driver& driver();

}  // namespace emulation

inline void __syncthreads() { emulation::wait_for_block(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { emulation::wait_for_warp(mask); }

template <class T>
T emulated_shuffle(unsigned mask, T value, unsigned from_lane) {
  static_assert(sizeof(T) <= 8);
  std::uint64_t* slots = emulation::slots_of_warp();
  std::memcpy(&slots[emulation::lane()], &value, sizeof(T));
  emulation::wait_for_warp(mask);
  emulation::check_lane(from_lane % 32, mask);
  T result;
  std::memcpy(&result, &slots[from_lane % 32], sizeof(T));
  emulation::wait_for_warp(mask);
  return result;
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask) {
  return emulated_shuffle(mask, value, emulation::lane() ^ static_cast<unsigned>(lane_mask));
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta) {
  const unsigned from = emulation::lane() + delta;
  return emulated_shuffle(mask, value, from < 32 ? from : emulation::lane());
}
template <class T>
T __shfl_sync(unsigned mask, T value, int from_lane) {
  return emulated_shuffle(mask, value, static_cast<unsigned>(from_lane));
}

// Performs an atomic function: replaces the number with the result of `change`, and returns the old number.
template <class T, class F>
T emulated_atomic(T* where, F change) {
  const T before = *where;
  *where = change(before);
  emulation::note_atomic(where, sizeof(T));
  return before;
}
template <class T>
T atomicAdd(T* where, T value) {
  return emulated_atomic(where, [=](T before) { return static_cast<T>(before + value); });
}
template <class T>
T atomicMin(T* where, T value) {
  return emulated_atomic(where, [=](T before) { return value < before ? value : before; });
}
template <class T>
T atomicCAS(T* where, T expected, T value) {
  return emulated_atomic(where, [=](T before) { return before == expected ? value : before; });
}
// Counts from 0 to `most`, and then from 0 again.
inline unsigned atomicInc(unsigned* where, unsigned most) {
  return emulated_atomic(where, [=](unsigned before) { return before >= most ? 0 : before + 1; });
}
inline void __threadfence() { emulation::fence(); }
inline void __threadfence_system() { emulation::fence(); }
