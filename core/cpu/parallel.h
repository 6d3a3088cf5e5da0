// Loops over several threads.
#pragma once

#include <omp.h>

#include <cstdint>
#ifdef __SANITIZE_THREAD__
#include <thread>
#include <vector>
#endif

namespace tandem::cpu {

// A loop over fewer elements runs on one thread, because starting other threads would take longer than the loop. The
// figure is a round number: 128 KiB of f32.
inline constexpr std::int64_t parallel_grain = 32768;

// Calls f(i) for i in [0, count). OpenMP's threads share the calls if they handle at least parallel_grain `elements` in
// total. f must not throw.
template <class F>
void parallel_for(std::int64_t count, std::int64_t elements, F f) {
  // If there are no other threads, even entering a parallel region would cost a system call.
  if (elements < parallel_grain || omp_get_max_threads() == 1) {
    for (std::int64_t i = 0; i < count; ++i) f(i);
    return;
  }
#ifdef __SANITIZE_THREAD__
  // The thread sanitizer does not understand how OpenMP's threads wait for each other, and would report each of their
  // loops. Plain threads replace them here.
  const std::int64_t threads = omp_get_max_threads();
  std::vector<std::thread> others;
  for (std::int64_t t = 0; t < threads; ++t) {
    others.emplace_back([&, t] {
      for (std::int64_t i = count * t / threads; i < count * (t + 1) / threads; ++i) f(i);
    });
  }
  for (auto& other : others) other.join();
#else
#pragma omp parallel for
  for (std::int64_t i = 0; i < count; ++i) f(i);
#endif
}

// Calls f(worker, i) for each i in [0, count). A worker is a thread and processes consecutive values of i.
template <class F>
void share(std::int64_t workers, std::int64_t count, std::int64_t elements, F f) {
  parallel_for(workers, elements, [&](std::int64_t worker) {
    for (std::int64_t i = count * worker / workers; i < count * (worker + 1) / workers; ++i) f(worker, i);
  });
}

}  // namespace tandem::cpu
