#include <tandem/distributed/launch/node_rendezvous.h>
#include <tandem/distributed/store/tcp_store.h>

namespace tandem::distributed {
namespace {

class OneNode final : public NodeRendezvous {
 public:
  OneNode(const LaunchOptions& options, const std::string& token, const NodeStatus& status)
      : max_restarts_(options.max_restarts), server_({options.master_addr, options.master_port, token}) {
    report(status);
  }

  int port() const override { return server_.port(); }
  int fd() const override { return -1; }
  JobAssignment assignment() override { return assignment_; }
  void report(const NodeStatus& status) final;
  int id() const override { return 0; }
  bool is_released() override { return true; }
  int refused_clients() const override { return server_.refused_clients(); }

 private:
  const int max_restarts_;
  TcpStoreServer server_;
  JobAssignment assignment_;
};

void OneNode::report(const NodeStatus& status) {
  using State = NodeStatus::State;
  using Action = JobAssignment::Action;
  auto& next = assignment_;
  if (next.action == Action::gather && status.state == State::waiting) {
    next.action = Action::run;
    next.nodes = {{0, 0, status.processes, 0, status.processes}};
    next.failures.clear();
    next.ended_early.clear();
    next.reason.clear();
  }
  if (status.generation != next.generation) return;
  const bool has_ended = status.state == State::ended;
  if (next.action == Action::run && status.has_failed) next.action = Action::stop;
  if (next.action == Action::run && has_ended) next.action = Action::done;
  if (next.action == Action::stop && has_ended) {
    next.failures = status.failures;
    next.ended_early = status.ended_well;
    next.restart_or_fail(max_restarts_);
  }
}

}  // namespace

std::unique_ptr<NodeRendezvous> make_node_rendezvous(const LaunchOptions& options, const std::string& token,
                                                     const NodeStatus& status) {
  if (options.max_nodes == 1) return std::make_unique<OneNode>(options, token, status);
  return rendezvous_of_many_nodes.entries().front()(options, token, status);
}

}  // namespace tandem::distributed
