// spawn: a job of several processes out of one program, without a launcher.
#pragma once

#include <functional>

namespace tandem::distributed {

// Runs f(rank) in `processes` new processes of this host, and returns when all of them have ended without an error:
//
//   spawn(4, [&](int rank) {
//     const auto group = init();
//     ...
//   });
//
// Each new process is a copy of the caller (fork) with the environment variables of its rank, so that init() and
// read_environment() work in it. The ranks meet in a store that the caller serves on the loopback address until spawn()
// returns. The ranks divide the cores among them, unless OMP_NUM_THREADS is set. What f changes in memory stays in its
// process.
//
// When a rank throws, prints what cannot be written, or a signal ends it, spawn() ends the other ranks (SIGTERM, and
// SIGKILL five seconds later) and throws an Error that names the rank that failed first and its message or signal. No
// process is left behind, not even when the caller is killed.
//
// A copy of a process has only one thread, and locks that other threads held stay locked. So spawn() throws an Error if
// the caller has more than one thread. Call it before anything computes, because OpenMP keeps its threads, and before
// loaders and stores are made, which have threads. CUDA does not work in a copy of a process that has used it, or that
// has only counted the GPUs: ranks that then want a GPU throw an Error.
void spawn(int processes, const std::function<void(int rank)>& f);

}  // namespace tandem::distributed
