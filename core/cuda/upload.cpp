#include <tandem/core/cuda/event.h>
#include <tandem/core/cuda/upload.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tandem::cuda {
namespace {

constexpr std::size_t least = std::size_t{1} << 20, most = std::size_t{1} << 26;  // bytes of a ring
// From this number of bytes on, numbers go through a ring on the GPU. For fewer bytes, the copy there takes longer than
// it saves.
constexpr std::size_t least_ahead = std::size_t{1} << 18;

class Ring {
 public:
  std::mutex mutex;  // guards all of this

  void upload(const char* host, char* data, std::size_t bytes) {
    if (2 * bytes > bytes_ && bytes_ < most) grow(std::clamp(std::bit_ceil(2 * bytes), least, most));
    const std::size_t longest = bytes_ / 4;
    for (std::size_t done = 0; done < bytes; done += longest) {
      const std::size_t count = std::min(longest, bytes - done);
      const std::size_t at = make_room(count);
      std::memcpy(memory_ + at, host + done, count);
      if (there_ && bytes >= least_ahead) send_ahead(data + done, at, count);
      else TANDEM_CUDA(cudaMemcpyAsync(data + done, memory_ + at, count, cudaMemcpyHostToDevice, current_stream()));
      mark(at, count);
    }
  }

 private:
  // A part of the ring that the GPU may still have to read. The GPU has read it when the event has passed.
  struct Piece {
    std::size_t begin, end;
    std::unique_ptr<CudaEvent> read;
  };

  // Earlier work may still use the memory at `data`, so only the computation stream can write there. The transfer over
  // the bus, which takes longest, need not wait for that work: it goes to the ring on the GPU, in a separate stream.
  void send_ahead(char* data, std::size_t at, std::size_t count) {
    TANDEM_CUDA(cudaMemcpyAsync(there_ + at, memory_ + at, count, cudaMemcpyHostToDevice, copies_));
    TANDEM_CUDA(cudaEventRecord(*arrived_, copies_));
    TANDEM_CUDA(cudaStreamWaitEvent(current_stream(), *arrived_));
    TANDEM_CUDA(cudaMemcpyAsync(data, there_ + at, count, cudaMemcpyDeviceToDevice, current_stream()));
  }

  void grow(std::size_t bytes) {
    while (!pieces_.empty()) retire();
    if (!copies_) {
      TANDEM_CUDA(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking));
      arrived_ = std::make_unique<CudaEvent>();
    }
    if (there_) TANDEM_CUDA(cudaFree(std::exchange(there_, nullptr)));
    // If there is no memory for the ring, numbers go directly to `data`.
    if (cudaMalloc(reinterpret_cast<void**>(&there_), bytes) != cudaSuccess) {
      there_ = nullptr;
      cudaGetLastError();
    }
    char* memory = nullptr;
    TANDEM_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&memory), bytes, cudaHostAllocDefault));
    if (memory_) TANDEM_CUDA(cudaFreeHost(memory_));
    memory_ = memory;
    bytes_ = bytes;
    next_ = 0;
  }

  // Pieces follow each other in the ring, and wrap around at its end. So the next pieces in the ring are the oldest
  // ones.
  std::size_t make_room(std::size_t count) {
    while (!pieces_.empty() && pieces_.front().read->state() == cudaSuccess) take_back();
    if (next_ + count > bytes_) {
      while (!pieces_.empty() && pieces_.front().begin >= next_) retire();
      next_ = 0;
    }
    while (!pieces_.empty() && pieces_.front().begin < next_ + count && pieces_.front().end > next_) retire();
    return next_;
  }

  void mark(std::size_t begin, std::size_t count) {
    std::unique_ptr<CudaEvent> event;
    if (free_events_.empty()) {
      event = std::make_unique<CudaEvent>();
    } else {
      event = std::move(free_events_.back());
      free_events_.pop_back();
    }
    TANDEM_CUDA(cudaEventRecord(*event, current_stream()));
    next_ = (begin + count + 63) / 64 * 64;
    pieces_.push_back({begin, next_, std::move(event)});
  }

  // Waits until the GPU has read the oldest piece.
  void retire() {
    TANDEM_CUDA(cudaEventSynchronize(*pieces_.front().read));
    take_back();
  }
  void take_back() {
    free_events_.push_back(std::move(pieces_.front().read));
    pieces_.pop_front();
  }

  char *memory_ = nullptr, *there_ = nullptr;  // page-locked on the host, and as much on the GPU
  cudaStream_t copies_ = nullptr;
  std::unique_ptr<CudaEvent> arrived_;
  std::size_t bytes_ = 0, next_ = 0;
  std::deque<Piece> pieces_;  // the oldest comes first
  std::vector<std::unique_ptr<CudaEvent>> free_events_;
};

}  // namespace

void upload(int device, const void* host, void* data, std::size_t bytes) {
  static auto* rings = new std::array<Ring, 64>;  // never destroyed: the driver may be gone before static objects are
  Ring& ring = rings->at(static_cast<std::size_t>(device));
  const std::lock_guard lock(ring.mutex);
  ring.upload(static_cast<const char*>(host), static_cast<char*>(data), bytes);
}

}  // namespace tandem::cuda
