// Fuzzes the JSON that launchers leave in the store (statuses and the assignment), and the error files of ranks. The
// input is read as each of them.
#include <tandem/core/base/deadline.h>
#include <tandem/distributed/launch/coordinator.h>
#include <tandem/distributed/launch/node_messages.h>

#include "fuzz.h"

using namespace tandem;
using namespace tandem::distributed;

namespace {

// Uses failures as a launcher does after it has read them.
void use(std::vector<WorkerFailure> failures, const std::vector<int>& ended_early) {
  sort_by_cause(failures);
  for (const auto& failure : failures) failure.exit_code();
  if (!failures.empty()) explain(failures, ended_early, 1);
}

// Reads the status as a node does. This node is the first of two, and the status is that of the second. Time passes
// until the job ends.
void coordinate(const NodeStatus& other) {
  LaunchOptions options;
  options.min_nodes = options.max_nodes = 2;
  options.max_restarts = 1;
  NodeStatus mine;
  mine.host = "here";
  mine.max_nodes = 2;
  mine.processes = 1;
  mine.serves_store = true;
  NodeStatus another = other;
  another.id = 1;  // as its key says
  auto now = tandem::RunningTime::now();
  Coordinator coordinator(options, now);
  for (int i = 0; i < 4; ++i) {
    now += std::chrono::minutes(30);
    const auto& assignment = coordinator.decide({mine, another}, now);
    assignment.world_size();
    use(assignment.failures, assignment.ended_early);
    mine.generation = another.generation = assignment.generation;
    mine.state =
        assignment.action == JobAssignment::Action::gather ? NodeStatus::State::waiting : NodeStatus::State::ended;
    decode_assignment(encode(assignment));
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  NodeStatus status;
  if (fuzz::expect_at_most_an_error([&] { status = decode_status(text); })) {
    decode_status(encode(status));
    use(status.failures, status.ended_well);
    coordinate(status);
  }
  JobAssignment assignment;
  if (fuzz::expect_at_most_an_error([&] { assignment = decode_assignment(text); })) {
    decode_assignment(encode(assignment));
    assignment.world_size();
    assignment.node_of(0);
    use(assignment.failures, assignment.ended_early);
  }
  const fuzz::MemoryFile file(text);
  WorkerEnd end;
  end.status = 1;
  end.seen = std::chrono::system_clock::now();
  if (auto failure = find_failure(0, 1, end, file.path())) {
    WorkerFailure other = *failure;
    other.time = end.seen;
    use({*failure, other}, {1});
    status.failures = {*failure};
    decode_status(encode(status));
  }
  return 0;
}
