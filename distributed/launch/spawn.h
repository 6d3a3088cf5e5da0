// spawn: a job of several processes out of one program, without a launcher.
#pragma once

#include <functional>

namespace tandem::distributed {

// Runs f(rank) in `processes` new processes of this host and returns when all have ended well:
//
//   spawn(4, [&](int rank) {
//     const auto group = init();
//     ...
//   });
//
// Each process is a copy of this one (fork) and has the environment of its rank, so that init() and read_environment()
// work in it; the ranks meet in a store that the caller serves on the loopback, until spawn() returns. Unless
// OMP_NUM_THREADS says otherwise they divide the cores among them. What f changes stays in its process.
//
// When a rank throws or a signal ends it, the others are ended (SIGTERM, five seconds later SIGKILL), and an Error
// names the rank that failed first and its message or signal. No process is left behind, not even when this one is
// killed.
//
// A copy has only the thread that copied itself, and none of the locks that others held: Error when this process has
// more than one thread. So call it before anything computes: OpenMP keeps its threads, and loaders and stores have
// some.
void spawn(int processes, const std::function<void(int rank)>& f);

}  // namespace tandem::distributed
