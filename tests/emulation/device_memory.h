// The memory of the emulated GPUs. It has addresses of its own, which host code can't touch: a block is open only to
// the thread that is the GPU, and only while a kernel, a copy or a library works. Everything else that reads or writes
// there ends the process, with words that say so. A page that nobody may touch follows each block, and freed addresses
// are not used again. A new block holds NaN.
#pragma once

#include <cstddef>

namespace emulation {

void* allocate_on_gpu(std::size_t bytes);
void free_on_gpu(void* block);

enum class Place { pageable, pinned, gpu };
Place place_of(const void* address);
// Host memory that the GPU can reach.
void* allocate_pinned(std::size_t bytes);
void free_pinned(void* block);

// While one lives, its thread is the GPU.
class OnGpu {
 public:
  OnGpu();
  ~OnGpu();
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
};

// From now on until it gets nullptr, the GPU opens its memory for reading only. A page opens for writing, after a call
// of `keep` with it, when the GPU writes there first, and when it does so again after expect_first_write.
inline constexpr std::size_t page_bytes = 4096;
void on_first_write(void (*keep)(char* page));
void expect_first_write(char* page);

// Gives this thread a stack of its own for the faults by which blocks are opened. Machine code of oneDNN does not keep
// to the place where a fault would be handled otherwise.
void take_fault_stack();

// Ends the process: a real GPU would hang, or do anything at all.
[[noreturn]] void die(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace emulation
