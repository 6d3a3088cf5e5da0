// Launcher: starts the processes of a job on this host. It serves the job's store, or connects to the host that serves
// it. It forwards the processes' output, and ends or restarts all processes together.
//
// Which rank failed first? Every failed rank has a WorkerFailure. The launcher sorts the failures, and the first is the
// cause.
//   0. report_failure (distributed/job/failure_report.h), in the rank itself, records why and when the rank fails.
//   1. WorkerGroup::notice_ends (worker_group.cpp) runs after SIGCHLD and records how and when each process ended. The
//      group stops 200 ms after the first failure, so other ranks can still fail by themselves.
//   2. find_failure (worker_failure.cpp) decides whether an ended process counts as failed: it ended badly, and either
//      wrote an error report or had not been told to stop.
//   3. sort_by_cause (worker_failure.cpp) orders the failures by time. Its comment in worker_failure.h states the rule.
//   4. On several hosts, Coordinator::conclude (coordinator.cpp) collects the failures of all nodes and sorts them with
//      the same function.
//   5. JobAssignment::restart_or_fail (job_assignment.cpp) restarts the job, or fails it with the exit code of the
//      first failure.
//   6. explain (worker_failure.cpp) writes the text for stderr: "rank 2 failed first: ...".
#pragma once

#include <tandem/distributed/launch/launch_options.h>

#include <string>
#include <vector>

namespace tandem::distributed {

// Runs `program` options.processes times, with torchrun's environment variables. Returns the exit code for the
// launcher:
//   - 0 if all ranks of the job succeeded, but 1 if their output could not be written;
//   - the exit code of the rank that failed first, or 128 + signal if a signal ended that rank;
//   - 128 + signal if SIGINT, SIGTERM, SIGHUP or SIGQUIT stopped the launcher.
//
// A failure ends the other ranks on all hosts, and the launcher explains it on stderr. If a restart is left, all ranks
// then start again, with TORCHELASTIC_RESTART_COUNT increased by one. No process of the job outlives this call or the
// calling process, whatever ends the calling process, except a process that has left the Unix process group of its
// rank.
//
// Rank 0 inherits stdin, and stdout and stderr where they are no pipes and not redirected. The launcher forwards the
// other ranks' output in whole lines, each prefixed with "[rank1] ". Files: log_dir/<run
// id>/attempt_<generation>/<rank>/{stdout.log,stderr.log,error.json}.
//
// Throws an Error if the job can't be started. During the call, it handles the signals above and SIGCHLD, so a process
// may make only one such call at a time.
int launch(const LaunchOptions& options, const std::vector<std::string>& program);

}  // namespace tandem::distributed
