// Divides a host's cores among the ranks that share them.
#pragma once

#include <tandem/distributed/groups/process_group.h>

#include <string>
#include <vector>

namespace tandem::distributed {

// The cores and threads that a rank may use.
struct RankCores {
  std::string identity;   // equal for ranks that share their cores
  int cores = 1;          // available_cores()
  int threads = 1;        // OpenMP threads
  bool is_given = false;  // whether the user has chosen `threads`
};

// Returns the number of threads of each rank: the number that the user has chosen, or else the cores divided by the
// number of ranks that share them, but at least 1. A launcher knows only the ranks that it starts itself, so call the
// function after all ranks have met.
std::vector<int> divided_threads(const std::vector<RankCores>& ranks);

// Returns a sentence for the user if ranks that share cores have more threads than cores, and a rank has more than one
// thread. The threads then wait for each other most of the time. Otherwise returns an empty string.
std::string oversubscription(const std::vector<RankCores>& ranks, const std::vector<int>& threads);

// Sets the number of OpenMP threads of the calling thread to the result of divided_threads(). Returns the sentence for
// the user, on rank 0. The call is collective. `is_given` is whether the user has chosen this rank's current number of
// threads.
std::string divide_cores(ProcessGroup& group, bool is_given);

// Throws an Error for thread settings that would crash the process: more threads than the OpenMP library's list has
// room for (OMP_NUM_THREADS), or stacks that are too small (ulimit -s, OMP_STACKSIZE).
void check_thread_settings();

}  // namespace tandem::distributed
