// Memory that all ranks of one host see: a place for each rank's numbers, and a counter beside it.
#pragma once
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>

namespace course {

class Board {
 public:
  // Before the ranks are forked.
  explicit Board(int world) : world_(world) {
    memory_ = mmap(nullptr, world * sizeof(Place), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::runtime_error("no shared memory");
  }
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;
  ~Board() { munmap(memory_, world_ * sizeof(Place)); }

  static constexpr std::size_t room = 4096;  // numbers

  float* numbers(int rank) { return places()[rank].numbers; }

  // The counter of this rank; everything that was written before is seen by those who see the new value.
  void raise(int rank, unsigned to) { places()[rank].progress.store(to, std::memory_order_release); }

  // Waits until the counters of all ranks are at `target` or above.
  void wait_for_all(unsigned target) {
    for (int rank = 0; rank < world_; ++rank)
      for (unsigned progress = 0; progress < target; std::this_thread::yield()) {
        progress = places()[rank].progress.load(std::memory_order_acquire);
        if (progress == gone) throw std::runtime_error("rank " + std::to_string(rank) + " is closed");
      }
  }

  // So that nobody waits for this rank any more.
  void give_up(int rank) { raise(rank, gone); }

 private:
  static constexpr unsigned gone = -1;
  struct alignas(64) Place {
    std::atomic<unsigned> progress;
    float numbers[room];
  };
  Place* places() { return static_cast<Place*>(memory_); }

  int world_;
  void* memory_;
};

}  // namespace course
