// Launcher: starts the processes of a job on this host. The launcher serves the job's store, or connects to the host
// that serves it. It passes the processes' output on, and it ends or restarts all processes together.
//
// Who failed first? Every failed rank gets one WorkerFailure. The failures are sorted. The first one is the cause.
//   0. report_failure (distributed/job/failure_report.h), in the rank itself, writes why the rank fails and when.
//   1. WorkerGroup::notice_ends (worker_group.cpp) runs after SIGCHLD and notes how and when each process ended. The
//      first failure starts a wait of 200 ms, in which other ranks may still fail by themselves; then the group stops.
//   2. find_failure (worker_failure.cpp) decides whether an ended process counts as failed: it ended badly, and either
//      wrote an error report or had not been told to stop.
//   3. sort_by_cause (worker_failure.cpp) orders the failures by time. Its comment in worker_failure.h states the rule.
//   4. On several hosts, Coordinator::conclude (coordinator.cpp) collects the failures of all nodes and sorts them with
//      the same function.
//   5. JobAssignment::restart_or_fail (job_assignment.cpp) restarts the job, or fails it with the exit code of the
//   first
//      failure.
//   6. explain (worker_failure.cpp) writes the text for stderr: "rank 2 failed first: ...".
#pragma once

#include <tandem/distributed/launch/launch_options.h>

#include <string>
#include <vector>

namespace tandem::distributed {

// Runs `program` options.processes times, with torchrun's variables set. Returns the exit code for the launcher:
//   - 0 when all ranks of the job succeeded, and 1 when they did and their output could not be passed on;
//   - the exit code of the rank that failed first, or 128 + signal if a signal ended that rank;
//   - 128 + signal when SIGINT, SIGTERM, SIGHUP or SIGQUIT stopped the launcher.
//
// A failure ends the other ranks on all hosts, and the launcher explains it on stderr. If a restart is left, all ranks
// then start again, and TORCHELASTIC_RESTART_COUNT is one higher. No process of the job outlives this call or the
// calling process, however the calling process ends.
//
// Rank 0 inherits stdin, stdout and stderr. The other ranks' output is passed on in whole lines, with "[rank1] " in
// front of each line.
// Files: log_dir/<run id>/attempt_<generation>/<local rank>/{stdout.log,stderr.log,error.json}.
//
// Throws an Error when the job cannot be started. While the call runs, it handles the signals above and SIGCHLD, so a
// process may make only one such call at a time.
int launch(const LaunchOptions& options, const std::vector<std::string>& program);

}  // namespace tandem::distributed
