// A process that can start only a few more threads.
#pragma once

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace tandem::testing {

// From now on this process can start `count` threads and no more: their stacks are so large that its limit of address
// space has room for just so many. Call it in a death test, which is a process of its own.
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
