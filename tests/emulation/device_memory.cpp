#include "device_memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace emulation {
namespace {

constexpr std::size_t page = page_bytes, reserved = std::size_t{1} << 38;  // only addresses, not memory
constexpr std::size_t most_filled = std::size_t{1} << 20;                  // bytes of NaN at the beginning of a block

struct Range {
  char* begin = nullptr;
  // For each page, the first page of its block, counted from 1, and the number of pages of the block. 0 means no block.
  std::atomic<std::uint32_t>*first = nullptr, *pages = nullptr;
};
Range range;
std::mutex& mutex = *new std::mutex;  // guards the variables below; never destroyed, because the GPU outlives main()
std::size_t next_page = 1;            // this page and those after it were never used
std::map<const char*, std::size_t> pinned;

thread_local bool is_gpu = false;
// The blocks that are open for the GPU thread.
std::array<std::uint32_t, 4096> open_blocks;
std::size_t open_count = 0;
void (*keep_page)(char*) = nullptr;  // see on_first_write

template <class T>
T* reserve(std::size_t bytes, int access) {
  void* const found = mmap(nullptr, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) die("no addresses for the GPU's memory: %s", std::strerror(errno));
  return static_cast<T*>(found);
}

void set_access(char* begin, std::size_t bytes, int access) {
  if (mprotect(begin, bytes, access) != 0) die("mprotect: %s", std::strerror(errno));
}
void set_access(std::uint32_t first, int access) {
  set_access(range.begin + (first - 1) * page, range.pages[first - 1] * page, access);
}

bool is_open(std::uint32_t first) {
  const auto end = open_blocks.begin() + open_count;
  return std::find(open_blocks.begin(), end, first) != end;
}

// Opens the block that the GPU accesses. The block is closed when the GPU's current work is done.
void on_fault(int, siginfo_t* info, void*) {
  const auto address = static_cast<const char*>(info->si_addr);
  if (address < range.begin || address >= range.begin + reserved) {
    signal(SIGSEGV, SIG_DFL);  // without the handler, the instruction fails again
    return;
  }
  const std::uint32_t first = range.first[static_cast<std::size_t>(address - range.begin) / page];
  if (!is_gpu) die("code on the host touches %p, which is the GPU's memory", info->si_addr);
  if (!first) die("a kernel or a copy touches %p, where no block of memory is (any more)", info->si_addr);
  if (keep_page && is_open(first)) {
    char* const begin = range.begin + static_cast<std::size_t>(address - range.begin) / page * page;
    keep_page(begin);
    set_access(begin, page, PROT_READ | PROT_WRITE);
    return;
  }
  if (open_count == open_blocks.size()) die("a kernel touches more than %zu blocks", open_count);
  set_access(first, keep_page ? PROT_READ : PROT_READ | PROT_WRITE);
  open_blocks[open_count++] = first;
}

void prepare() {
  range.begin = reserve<char>(reserved, PROT_NONE);
  range.first = reserve<std::atomic<std::uint32_t>>(reserved / page * 4, PROT_READ | PROT_WRITE);
  range.pages = reserve<std::atomic<std::uint32_t>>(reserved / page * 4, PROT_READ | PROT_WRITE);
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
}

}  // namespace

void take_fault_stack() {
  constexpr std::size_t bytes = 256 * 1024;
  stack_t stack{};
  stack.ss_sp = new char[bytes];
  stack.ss_size = bytes;
  sigaltstack(&stack, nullptr);
}

void die(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fputs("emulated GPU: ", stderr);
  std::vfprintf(stderr, format, arguments);
  std::fputs("\n", stderr);
  std::abort();
}

void* allocate_on_gpu(std::size_t bytes) {
  const std::lock_guard lock(mutex);
  if (!range.begin) prepare();
  const std::size_t rounded = (bytes + 511) / 512 * 512, pages = (rounded + page - 1) / page, first = next_page;
  next_page += pages + 1;
  if (next_page * page > reserved) die("all addresses for the GPU's memory are used up");
  for (std::size_t i = 0; i < pages; ++i) range.first[first - 1 + i] = static_cast<std::uint32_t>(first);
  range.pages[first - 1] = static_cast<std::uint32_t>(pages);
  char* const begin = range.begin + (first - 1) * page;
  const std::size_t filled = rounded < most_filled ? pages * page : most_filled / page * page;
  mprotect(begin, filled, PROT_READ | PROT_WRITE);
  std::memset(begin, 0xff, filled);
  mprotect(begin, filled, PROT_NONE);
  return begin + pages * page - rounded;  // the block ends at the end of its last page
}

void free_on_gpu(void* block) {
  const std::lock_guard lock(mutex);
  const std::size_t number = static_cast<std::size_t>(static_cast<char*>(block) - range.begin) / page;
  const std::uint32_t first = range.first[number], pages = range.pages[number];
  for (std::uint32_t i = 0; i < pages; ++i) range.first[number + i] = 0;
  madvise(range.begin + (first - 1) * page, pages * page, MADV_DONTNEED);
  mprotect(range.begin + (first - 1) * page, pages * page, PROT_NONE);
}

Place place_of(const void* address) {
  const std::lock_guard lock(mutex);
  const auto at = static_cast<const char*>(address);
  if (range.begin && at >= range.begin && at < range.begin + reserved) return Place::gpu;
  const auto after = pinned.upper_bound(at);
  const bool is_pinned = after != pinned.begin() && at < std::prev(after)->first + std::prev(after)->second;
  return is_pinned ? Place::pinned : Place::pageable;
}

void* allocate_pinned(std::size_t bytes) {
  void* const block = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  std::memset(block, 0xff, bytes);
  const std::lock_guard lock(mutex);
  pinned[static_cast<char*>(block)] = bytes;
  return block;
}

void free_pinned(void* block) {
  {
    const std::lock_guard lock(mutex);
    pinned.erase(static_cast<char*>(block));
  }
  std::free(block);
}

void on_first_write(void (*keep)(char* page)) {
  keep_page = keep;
  for (std::size_t i = 0; i < open_count; ++i) set_access(open_blocks[i], keep ? PROT_READ : PROT_READ | PROT_WRITE);
}
void expect_first_write(char* first) { set_access(first, page, PROT_READ); }

OnGpu::OnGpu() { is_gpu = true; }
OnGpu::~OnGpu() {
  is_gpu = false;
  for (std::size_t i = 0; i < open_count; ++i) set_access(open_blocks[i], PROT_NONE);
  open_count = 0;
}

}  // namespace emulation
