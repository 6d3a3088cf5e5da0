// Memory that all ranks of one host see: a slot for each rank's numbers, with a counter.
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
  // Construct it before the ranks are forked.
  explicit Board(int world) : world_(world) {
    memory_ = mmap(nullptr, world * sizeof(Place), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::runtime_error("no shared memory");
  }
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;
  ~Board() { munmap(memory_, world_ * sizeof(Place)); }

  static constexpr std::size_t room = 4096;  // numbers

  float* numbers(int rank) { return places()[rank].numbers; }

  // Sets the counter of this rank. A rank that sees the new value also sees everything that was written before.
  void raise(int rank, unsigned to) { places()[rank].progress.store(to, std::memory_order_release); }

  // Waits until the counters of all ranks are at `target` or above.
  void wait_for_all(unsigned target) {
    for (int rank = 0; rank < world_; ++rank)
      for (unsigned progress = 0; progress < target; std::this_thread::yield()) {
        progress = places()[rank].progress.load(std::memory_order_acquire);
        if (progress == gone) throw std::runtime_error("rank " + std::to_string(rank) + " has given up");
      }
  }

  // Makes ranks that wait for this rank throw.
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
