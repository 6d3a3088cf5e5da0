// Environment: this process's place in its job, as the launcher told it, and the way to the job's store.
#pragma once

#include <tandem/distributed/store.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace tandem::distributed {

// Read from torchrun's variables, which tandemrun sets too. A process that no launcher started is a job of
// one.
struct Environment {
  int rank = 0;              // RANK: of world_size processes in the job
  int world_size = 1;        // WORLD_SIZE
  int local_rank = 0;        // LOCAL_RANK: of local_world_size processes on this host
  int local_world_size = 1;  // LOCAL_WORLD_SIZE
  int group_rank = 0;        // GROUP_RANK: of group_world_size hosts ("nodes")
  int group_world_size = 1;  // GROUP_WORLD_SIZE
  std::string master_addr;   // MASTER_ADDR and MASTER_PORT: where the store is; empty and 0 in a job of one
                             // without a launcher
  int master_port = 0;
  std::string run_id;     // TORCHELASTIC_RUN_ID
  int restart_count = 0;  // TORCHELASTIC_RESTART_COUNT
  bool uses_agent_store =
      false;                // TORCHELASTIC_USE_AGENT_STORE: the launcher serves the store; else rank 0 does
  std::string store_token;  // TANDEM_STORE_TOKEN: what the store asks for; empty: nothing
};

// Error for values that are no numbers, are out of range or contradict each other, naming the variable.
// `variable` is getenv, or for tests something like it (null: not set).
Environment read_environment(const std::function<const char*(const char*)>& variable);
Environment read_environment();

// Connects to the job's store; where no launcher serves it, rank 0 does for as long as it holds the result.
// All keys get the run id and the restart count in front, so that nothing is read that another run or attempt
// left behind. REQUIRES: a master address, which every job of several processes has.
std::shared_ptr<Store> connect_store(const Environment& environment,
                                     Store::Timeout timeout = Store::default_timeout);

// Tells the launcher (tandemrun or torchrun) why this process is about to fail: writes `message` and the time
// to TORCHELASTIC_ERROR_FILE; of several failures in a job the earliest is reported as the cause. Does
// nothing when there is no launcher. Never throws: the failure itself must get through.
void report_failure(const std::string& message,
                    std::chrono::system_clock::time_point when = std::chrono::system_clock::now()) noexcept;

}  // namespace tandem::distributed
