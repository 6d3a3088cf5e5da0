#include <tandem/distributed/launch/job_assignment.h>
#include <tandem/distributed/system/signal_name.h>

#include <algorithm>
#include <csignal>
#include <string>

namespace tandem::distributed {

void JobAssignment::fail(const std::string& why, int code) {
  action = Action::failed;
  reason = why;
  exit_code = code;
}

void JobAssignment::restart_or_fail(int max_restarts, const std::string& trouble, int trouble_code, bool can_restart) {
  reason = trouble;
  const bool may_restart = restarts < max_restarts;
  if (may_restart && !failures.empty() && failures.front().exit_code() == usage_exit_code)
    return fail("no restart: exit code 2 means a wrong command line", usage_exit_code);
  // A rank that handles a signal as a request to stop, such as a rank with --checkpoint, has saved a checkpoint and
  // ended all ranks.
  if (may_restart && !failures.empty() && failures.front().end.has_exited)
    for (const int signal : {SIGTERM, SIGINT})
      if (failures.front().exit_code() == 128 + signal)
        return fail("no restart: rank " + std::to_string(failures.front().rank) + " was asked to stop by " +
                        signal_name(signal),
                    128 + signal);
  if (!may_restart || !can_restart) return fail(trouble, trouble.empty() ? failures.front().exit_code() : trouble_code);
  ++restarts;
  gather_again();
}

int JobAssignment::world_size() const {
  int size = 0;
  for (const auto& node : nodes) size += node.processes;
  return size;
}

int JobAssignment::node_of(int id) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(), [id](const auto& n) { return n.id == id; });
  return found == nodes.end() ? -1 : static_cast<int>(found - nodes.begin());
}

}  // namespace tandem::distributed
