// A limit on the threads that a process can start.
#pragma once

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace tandem::testing {

// From now on this process can start only `count` more threads. Their stacks are so large that the limit of address
// space has room for no more. Call it in a death test, which runs in a separate process.
inline void allow_threads(rlim_t count) {
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  constexpr rlim_t gib = rlim_t{1} << 30;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 4 * gib);
  pthread_setattr_default_np(&attributes);
  const rlim_t limit = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (4 * count + 2) * gib;
  const rlimit most{limit, limit};
  setrlimit(RLIMIT_AS, &most);
}

}  // namespace tandem::testing
