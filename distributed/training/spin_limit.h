// SpinLimit: OpenMP's threads of this process wait without spinning for long where other programs need the cores.
#pragma once

#include <memory>
#include <thread>

namespace tandem::distributed {

// A thread of GCC's OpenMP library that waits for another spins for milliseconds before it sleeps. On idle cores that
// saves time: without it, MNIST on two threads takes 16 % longer. On busy cores the thread that it waits for has no
// core while it spins, and two threads take several times as long as one.
//
// While a SpinLimit lives, a thread of its own counts how often the system takes the cores of this process away for
// other work, and limits the spinning while that happens. It does nothing where OpenMP has one thread when it is made,
// or where the user has chosen how threads wait (OMP_WAIT_POLICY, GOMP_SPINCOUNT).
class SpinLimit {
 public:
  SpinLimit();

 private:
  std::jthread watcher_;
};

// While it lives, OpenMP's threads spin for microseconds. The library does so by itself while it manages more threads
// than there are cores (GOMP_SPINCOUNT in GCC's manual), so this is a team of threads that sleep.
class ShortSpins {
 public:
  ShortSpins();

 private:
  std::jthread owner_;
};

}  // namespace tandem::distributed
