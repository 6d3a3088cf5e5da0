// Starts kernels.
#pragma once

#include <tandem/core/cuda/runtime.h>

#include <cstdint>
#include <type_traits>

namespace tandem::cuda {

// Runs `kernel` in the current stream.
template <class... Parameters>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::type_identity_t<Parameters>... arguments) {
#ifdef __CUDACC__
  kernel<<<grid, block, 0, current_stream()>>>(arguments...);
#else
  emulation::run(kernel, grid, block, arguments...);  // tests/emulation
#endif
  check(cudaGetLastError(), "kernel launch");
}

// `TANDEM_SHARED(name, count, type)` declares `name`: an array of `count` objects in memory that the threads of a block
// share. Their first contents are undefined, and no constructor runs.
#ifdef __CUDACC__
#define TANDEM_SHARED(name, count, ...)                                                \
  __shared__ __align__(16) unsigned char name##_memory[(count) * sizeof(__VA_ARGS__)]; \
  auto* const name = reinterpret_cast<std::add_pointer_t<__VA_ARGS__>>(name##_memory)
#else
#define TANDEM_SHARED(name, count, ...)                                          \
  alignas(16) static unsigned char name##_memory[(count) * sizeof(__VA_ARGS__)]; \
  auto* const name =                                                             \
      static_cast<std::add_pointer_t<__VA_ARGS__>>(emulation::shared_memory(name##_memory, sizeof name##_memory))
#endif

// The number of multiprocessors of a large GPU (an H100). Grids have a few blocks for each of them; a GPU that has
// fewer runs the blocks one after the other.
inline constexpr std::int64_t multiprocessors = 132;

// A grid of blocks of `threads` threads, with one thread per element but at most `most` blocks. A kernel whose threads
// step by the size of the grid works with fewer blocks, too.
inline dim3 blocks_for(std::int64_t elements, int threads, std::int64_t most = 32 * multiprocessors) {
  const std::int64_t blocks = (elements + threads - 1) / threads;
  return dim3(static_cast<unsigned>(blocks < 1 ? 1 : blocks < most ? blocks : most));
}

}  // namespace tandem::cuda
