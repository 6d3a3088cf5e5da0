// Runs kernels on the emulated GPU.
#undef _FORTIFY_SOURCE  // with it, longjmp() refuses to leave a stack
#include "block_writes.h"
#include "device_memory.h"
#include "random_order.h"
#include "streams.h"
#include "work_log.h"

#include <tandem/core/cuda/runtime.h>

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace emulation {
namespace {

constexpr std::size_t most_shared = 48 * 1024;  // bytes per block

// A stack that is suspended and resumed.
struct Context {
  ucontext_t begin;  // used only before it has begun
  jmp_buf left;      // used afterwards
  bool has_begun = true;
};

// Switches to `to`, until something switches back to `from`. swapcontext() would also save the signal mask, with a
// system call that takes longer than most steps of a thread. But the sanitizers support only swapcontext().
void go_on_with(Context& to, Context& from) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  swapcontext(&from.begin, &to.begin);
#else
  if (_setjmp(from.left) != 0) return;
  if (to.has_begun) _longjmp(to.left, 1);
  to.has_begun = true;
  setcontext(&to.begin);
#endif
}

// One block of a kernel. Each fiber runs several threads of the block, one after the other. When a thread waits, its
// fiber is suspended, and another fiber runs threads that have not begun. Threads begin in the given order.
class Block {
 public:
  Block(dim3 size, const std::vector<unsigned>& order, const std::function<void()>& thread)
      : size_(size), order_(order), count_(static_cast<unsigned>(order.size())), thread_(thread) {
    slots_.resize((count_ + 31) / 32 * 32);
    has_left_.resize(slots_.size());
  }

  void run() {
    while (finished_ < count_) {
      if (begun_ < count_) {
        if (idle_.empty()) idle_.push_back(make_fiber());
        Fiber* fiber = idle_.back();
        idle_.pop_back();
        enter(fiber);
      } else {
        release();
      }
    }
  }

  static constexpr std::uint64_t whole_block = ~std::uint64_t{0};
  // `whom` is the mask of lanes at a warp's barrier, or whole_block.
  void wait(std::uint64_t whom) {
    Fiber* fiber = running_;
    waiting_.push_back({fiber, current_, whom});
    go_on_with(scheduler_, fiber->context);
    set_thread(current_ = fiber->resumed);
    running_ = fiber;
  }

  unsigned thread() const { return current_; }
  std::uint64_t* slots_of_warp() { return &slots_[current_ / 32 * 32]; }
  bool is_here(unsigned lane) const {
    const unsigned thread = current_ / 32 * 32 + lane;
    return thread < count_ && !has_left_[thread];
  }

  void* share(void* memory, std::size_t bytes) {
    if (!shared_.insert({memory, bytes}).second) return memory;
    std::memset(memory, 0xa5, bytes);
    std::size_t all = 0;
    for (const auto& [begin, size] : shared_) all += size;
    if (all > most_shared) die("a block has %zu bytes of shared memory, more than %zu", all, most_shared);
    return memory;
  }

  static inline Block* now = nullptr;

 private:
  struct Fiber {
    Context context;
    std::unique_ptr<char[]> stack;
    unsigned resumed = 0;
  };
  struct Waiting {
    Fiber* fiber;
    unsigned thread;
    std::uint64_t whom;
  };

  Fiber* make_fiber() {
    constexpr std::size_t stack_bytes = 128 * 1024;
    auto fiber = std::make_unique<Fiber>();
    fiber->stack.reset(new char[stack_bytes]);
    fiber->context.has_begun = false;
    ucontext_t& begin = fiber->context.begin;
    getcontext(&begin);
    begin.uc_stack.ss_sp = fiber->stack.get();
    begin.uc_stack.ss_size = stack_bytes;
    begin.uc_link = nullptr;
    makecontext(
        &begin, [] { now->work(); }, 0);
    fibers_.push_back(std::move(fiber));
    return fibers_.back().get();
  }

  void enter(Fiber* fiber) {
    running_ = fiber;
    go_on_with(fiber->context, scheduler_);
  }

  // The endless loop of a fiber.
  void work() {
    for (;;) {
      Fiber* self = running_;
      if (begun_ == count_) {
        idle_.push_back(self);
        go_on_with(scheduler_, self->context);
        continue;
      }
      current_ = order_[begun_++];
      set_thread(current_);
      thread_();
      has_left_[current_] = true;
      ++finished_;
    }
  }

  void set_thread(unsigned index) {
    threadIdx = dim3(index % size_.x, index / size_.x % size_.y, index / size_.x / size_.y);
  }

  // Called when all threads have begun and none can continue. The threads of a warp continue when all lanes in their
  // mask that have not left the kernel wait with the same mask. The threads that wait for the block continue when all
  // remaining threads wait for the block.
  void release() {
    std::map<std::pair<unsigned, std::uint64_t>, unsigned> at_warp;  // the waiting lanes, by warp and mask
    unsigned at_block = 0;
    for (const auto& w : waiting_) {
      if (w.whom == whole_block) ++at_block;
      else at_warp[{w.thread / 32, w.whom}] |= 1u << w.thread % 32;
    }
    std::vector<unsigned> left(slots_.size() / 32);
    for (const auto& w : waiting_) left[w.thread / 32] |= 1u << w.thread % 32;
    std::vector<Waiting> free, stay;
    for (const auto& w : waiting_) {
      const bool whole_warp =
          w.whom != whole_block && at_warp[{w.thread / 32, w.whom}] == (w.whom & left[w.thread / 32]);
      const bool all = w.whom == whole_block && at_block == waiting_.size();
      (whole_warp || all ? free : stay).push_back(w);
    }
    if (free.empty()) die("%zu threads of a kernel wait at barriers that others never reach", waiting_.size());
    waiting_ = std::move(stay);
    for (const auto& w : free) {
      w.fiber->resumed = w.thread;
      enter(w.fiber);
    }
  }

  const dim3 size_;
  const std::vector<unsigned>& order_;
  const unsigned count_;
  const std::function<void()>& thread_;
  unsigned begun_ = 0, finished_ = 0, current_ = 0;
  Context scheduler_;
  Fiber* running_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::vector<Waiting> waiting_;
  std::vector<std::uint64_t> slots_;
  std::vector<bool> has_left_;
  std::map<void*, std::size_t> shared_;
};

// Returns the numbers 0 to count - 1 in ascending, descending or random order. If a barrier is missing, results depend
// on the order of threads, and are wrong in some runs.
std::vector<unsigned> draw_order(std::size_t count) {
  static Random random(seed_of_orders());
  std::vector<unsigned> order(count);
  std::iota(order.begin(), order.end(), 0u);
  switch (random() % 3) {
    case 0: break;
    case 1: std::reverse(order.begin(), order.end()); break;
    default: std::shuffle(order.begin(), order.end(), random);
  }
  return order;
}

bool may_launch(dim3 grid, dim3 block) {
  const auto is_between = [](unsigned n, unsigned most) { return n >= 1 && n <= most; };
  return is_between(grid.x, 0x7fffffffu) && is_between(grid.y, 65535) && is_between(grid.z, 65535) &&
         is_between(block.x, 1024) && is_between(block.y, 1024) && is_between(block.z, 64) &&
         block.x * block.y * block.z <= 1024;
}

}  // namespace

void check_bounds(std::uintptr_t address, dim3 block) {
  const unsigned threads = block.x * block.y * block.z;
  if (threads > 256 && threads <= 1024 && address % 1024 != 0)
    die("a kernel of %u threads without __launch_bounds__ may need more registers than a block has", threads);
}

bool is_for_gpu(const void* argument) { return !argument || place_of(argument) != Place::pageable; }

void run_kernel(dim3 grid, dim3 block, bool is_readable, std::function<void()> thread) {
  const std::string call =
      "launch " + std::to_string(grid.x * grid.y * grid.z) + " x " + std::to_string(block.x * block.y * block.z);
  if (log_call(call) != cudaSuccess) return;
  if (!may_launch(grid, block)) {
    failed(cudaErrorInvalidConfiguration);
    return;
  }
  note_kernel(tandem::cuda::current_stream());
  if (!is_readable) die("a kernel is given a pointer to the host's memory");
  submit_work(tandem::cuda::current_stream(), [grid, block, thread = std::move(thread)] {
    gridDim = grid;
    blockDim = block;
    const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
    const auto order_of_threads = draw_order(block.x * block.y * block.z);
    if (blocks > 1) begin_hiding_writes();
    for (const unsigned at : draw_order(blocks)) {
      blockIdx = dim3(at % grid.x, at / grid.x % grid.y, at / grid.x / grid.y);
      Block running(block, order_of_threads, thread);
      Block::now = &running;
      running.run();
      Block::now = nullptr;
      if (blocks > 1) hide_writes_of_block();
    }
    if (blocks > 1) show_all_writes();
  });
}

void* shared_memory(void* memory, std::size_t bytes) { return Block::now->share(memory, bytes); }
void wait_for_block() { Block::now->wait(Block::whole_block); }
void wait_for_warp(unsigned mask) {
  if (!(mask >> lane() & 1)) die("a lane is not in the mask of its own barrier, %x", mask);
  Block::now->wait(mask);
}
unsigned lane() { return Block::now->thread() % 32; }
void check_lane(unsigned lane, unsigned mask) {
  if (!(mask >> lane & 1) || !Block::now->is_here(lane)) die("a lane reads from lane %u, which is not there", lane);
}
std::uint64_t* slots_of_warp() { return Block::now->slots_of_warp(); }

}  // namespace emulation
