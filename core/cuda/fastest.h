// Finds the fastest of several ways to compute the same result on this GPU.
#pragma once

#include <tandem/core/cuda/event.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <utility>
#include <vector>

namespace tandem::cuda {

// Holds back all work that this thread puts into the current stream, until release(). The time between two events is
// then the GPU's alone, because the host has queued all work before the GPU begins.
class HeldStream {
 public:
  HeldStream() : stream_(current_stream()) { TANDEM_CUDA(cudaLaunchHostFunc(stream_, wait_for_release, this)); }
  ~HeldStream() {
    release();
    cudaStreamSynchronize(stream_);  // the function that waits must have seen it
  }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;

  void release() { is_released_ = true; }

 private:
  // The time is limited, because a call that waits for the GPU would never return while the stream is held.
  static void wait_for_release(void* held) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    while (!static_cast<HeldStream*>(held)->is_released_ && std::chrono::steady_clock::now() < end) {
    }
  }

  cudaStream_t stream_;
  std::atomic<bool> is_released_ = false;
};

// Returns the milliseconds that the GPU takes for work(), on average over `repetitions` runs without a pause.
template <class Work>
float milliseconds_of(int repetitions, Work work) {
  const CudaEvent begin(true), end(true);
  HeldStream held;
  TANDEM_CUDA(cudaEventRecord(begin, current_stream()));
  for (int i = 0; i < repetitions; ++i) work();
  TANDEM_CUDA(cudaEventRecord(end, current_stream()));
  held.release();
  TANDEM_CUDA(cudaEventSynchronize(end));
  float milliseconds = 0;
  TANDEM_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
  return milliseconds / static_cast<float>(repetitions);
}

// Removes the candidates that do not work, sorts the others by time with the fastest first, and returns their
// milliseconds. run(candidate) puts its work into the current stream, and returns false if the candidate does not work.
// A candidate that takes three times as long as the fastest so far runs only twice, or once if it takes longer than
// loading its code can. The function waits for the GPU, so no graph may be recorded at the same time.
template <class Candidate, class Run>
std::vector<float> sort_by_time(std::vector<Candidate>& candidates, Run run) {
  constexpr int repetitions = 5;
  constexpr float longest_load = 100;  // milliseconds
  float least = std::numeric_limits<float>::infinity();
  std::vector<std::pair<float, Candidate>> timed;
  for (const Candidate& candidate : candidates) {
    // This run also loads the code, for which the GPU may have to be idle, so the host's clock times it.
    TANDEM_CUDA(cudaStreamSynchronize(current_stream()));
    const auto begin = std::chrono::steady_clock::now();
    if (!run(candidate)) continue;
    TANDEM_CUDA(cudaStreamSynchronize(current_stream()));
    float milliseconds = std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - begin).count();
    if (milliseconds < longest_load || milliseconds < 3 * least)
      milliseconds = milliseconds_of(1, [&] { run(candidate); });
    if (milliseconds < 3 * least) milliseconds = milliseconds_of(repetitions, [&] { run(candidate); });
    least = std::min(least, milliseconds);
    timed.emplace_back(milliseconds, candidate);
  }
  std::stable_sort(timed.begin(), timed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  candidates.clear();
  std::vector<float> times;
  for (const auto& [milliseconds, candidate] : timed) {
    candidates.push_back(candidate);
    times.push_back(milliseconds);
  }
  return times;
}

}  // namespace tandem::cuda
