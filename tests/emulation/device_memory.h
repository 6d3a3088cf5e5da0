// The memory of the emulated GPUs. It has separate addresses, which host code can't access. A block is open only to the
// GPU thread, and only during a kernel, a copy or a call of a library. Any other access aborts the process with a
// message. An inaccessible page follows each block, and freed addresses are not reused. A new block holds NaN.
#pragma once

#include <cstddef>

namespace emulation {

void* allocate_on_gpu(std::size_t bytes);
void free_on_gpu(void* block);

enum class Place { pageable, pinned, gpu };
Place place_of(const void* address);
// Host memory that the GPU can access.
void* allocate_pinned(std::size_t bytes);
void free_pinned(void* block);

// While an object of this class exists, the thread that created it acts as the GPU.
class OnGpu {
 public:
  OnGpu();
  ~OnGpu();
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
};

// From now on, until it is called with nullptr, the GPU opens its memory only for reading. Before the GPU's first write
// to a page, `keep` is called, and the page opens for writing. expect_first_write makes the next write a first one
// again.
inline constexpr std::size_t page_bytes = 4096;
void on_first_write(void (*keep)(char* page));
void expect_first_write(char* page);

// Gives this thread a separate stack for the faults that open blocks. A fault is otherwise handled on the thread's own
// stack, in a place that oneDNN's machine code may use.
void take_fault_stack();

// Aborts the process with a message. A real GPU would hang or behave unpredictably.
[[noreturn]] void die(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace emulation
