// How the ranks that share a host's cores divide them.
#pragma once

#include <tandem/distributed/groups/process_group.h>

#include <string>
#include <vector>

namespace tandem::distributed {

// What a rank may compute on.
struct RankCores {
  std::string identity;   // equal for ranks that share their cores
  int cores = 1;          // available_cores()
  int threads = 1;        // of OpenMP
  bool is_given = false;  // the user has chosen `threads`
};

// The threads of each rank: what the user has chosen, else the cores divided by the ranks that share them, and at
// least 1. A launcher knows only the ranks that it starts itself, so call this after all ranks have met.
std::vector<int> divided_threads(const std::vector<RankCores>& ranks);

// A sentence for people when ranks with more than one thread have more threads together than they have cores, which
// then wait for each other most of the time; else empty.
std::string oversubscription(const std::vector<RankCores>& ranks, const std::vector<int>& threads);

// Sets the threads of OpenMP of the calling thread as divided_threads() says. Returns the sentence for people, on rank
// 0. Collective. `is_given`: the user has chosen the number of threads that this rank has now.
std::string divide_cores(ProcessGroup& group, bool is_given);

// Error for settings of threads with which the process would only crash: more of them than their team's list has room
// for (OMP_NUM_THREADS), or stacks too small to compute with (ulimit -s, OMP_STACKSIZE).
void check_thread_settings();

}  // namespace tandem::distributed
