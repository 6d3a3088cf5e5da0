// spawn: starts a job of several processes from within a program, without a launcher.
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
// Each new process is a copy of the caller (fork) with the environment variables of its rank, so init() and
// read_environment() work in it. The ranks meet through a store that the caller serves on the loopback address until
// spawn() returns. The ranks divide the cores among themselves, unless OMP_NUM_THREADS is set. Changes that f makes in
// memory are visible only in its process.
//
// If a rank throws, can't write its output, or is ended by a signal, spawn() ends the other ranks (SIGTERM, and SIGKILL
// five seconds later). It then throws an Error that names the rank that failed first, with its message or signal. No
// process is left behind, even if the caller is killed.
//
// A copy of a process has only one thread, and locks that other threads held stay locked. For this reason, spawn()
// throws an Error if the caller has more than one thread. Call it before any computation, because OpenMP keeps its
// threads, and before making loaders and stores, which have threads. CUDA does not work in a copy of a process that has
// used CUDA, even if it has only counted the GPUs. Ranks that need a GPU then throw an Error.
void spawn(int processes, const std::function<void(int rank)>& f);

}  // namespace tandem::distributed
