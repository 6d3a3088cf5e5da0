// Which of several ways to compute the same takes the least time on this GPU.
#pragma once

#include <tandem/core/cuda/event.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace tandem::cuda {

// Leaves of `candidates` those that work, the fastest first. run(candidate) puts its work into the current stream, and
// returns false when the candidate does not work after all. Waits for the GPU, so nothing may be recorded meanwhile.
template <class Candidate, class Run>
void sort_by_time(std::vector<Candidate>& candidates, Run run) {
  constexpr int runs = 3;
  const CudaEvent begin(true), end(true);
  std::vector<std::pair<float, Candidate>> timed;
  for (const Candidate& candidate : candidates) {
    if (!run(candidate)) continue;  // this run also loads the code
    float least = std::numeric_limits<float>::infinity();
    for (int i = 0; i < runs; ++i) {
      TANDEM_CUDA(cudaEventRecord(begin, current_stream()));
      run(candidate);
      TANDEM_CUDA(cudaEventRecord(end, current_stream()));
      TANDEM_CUDA(cudaEventSynchronize(end));
      float milliseconds = 0;
      TANDEM_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
      least = std::min(least, milliseconds);
    }
    timed.emplace_back(least, candidate);
  }
  std::stable_sort(timed.begin(), timed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  candidates.clear();
  for (const auto& [milliseconds, candidate] : timed) candidates.push_back(candidate);
}

}  // namespace tandem::cuda
