// Launcher: starts the processes of a job on this host, serves their store or meets the host that does, passes
// their output on, and ends or restarts them together.
#pragma once

#include <tandem/distributed/launch/launch_options.h>

#include <string>
#include <vector>

namespace tandem::distributed {

// Runs `program` options.processes times, with torchrun's variables set, and returns the exit code for the
// launcher: 0 when all ranks of the job succeeded, that of the rank that failed first (128 + signal), or 128 + signal
// when one of SIGINT, SIGTERM, SIGHUP and SIGQUIT stopped it. A failure ends the other ranks, on all hosts, and is
// explained on stderr; where a restart is left, all ranks then start again, with TORCHELASTIC_RESTART_COUNT one
// higher. No process of the job outlives the call, nor the calling process, however that ends. Rank 0 inherits stdin,
// stdout and stderr; of other ranks whole lines are passed on, with "[rank1] " in front.
// Files: log_dir/<run id>/attempt_<restart count>/<local rank>/{stdout.log,stderr.log,error.json}.
// Error when the job cannot be started. Takes over the signals above and SIGCHLD while it runs; one call at a
// time.
int launch(const LaunchOptions& options, const std::vector<std::string>& program);

}  // namespace tandem::distributed
