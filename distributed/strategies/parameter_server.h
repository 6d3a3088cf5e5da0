// ParameterServer: some ranks keep and update the parameters. All ranks send gradients to them and receive the results.
#pragma once

#include <tandem/distributed/strategies/flat_parameters.h>

#include <functional>
#include <memory>
#include <vector>

namespace tandem::distributed {

// Returns the parameters that each of `servers` servers keeps, as ascending indices into `parameters`. Parameters are
// not split. The function assigns them from the largest to the smallest, each to the server with the fewest bytes so
// far.
std::vector<std::vector<std::size_t>> divide_parameters(const std::vector<NamedTensor>& parameters, int servers);

// The synchronous parameter server:
//
//   ParameterServer server(model, group, 2);    // every rank now holds rank 0's parameters and buffers
//   std::optional<optim::SGD> optimizer;
//   if (server.is_server()) optimizer.emplace(server.kept(), optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
//   model.zero_grad();
//   loss(model(images), labels).backward();
//   server.step([&] { optimizer->step(); });    // push gradients, update on the servers, pull parameters
//
// Ranks 0 to servers - 1 are servers. Every rank trains, including the servers. A rank that is only a server would be
// idle while the others compute, and a program would need two roles. Each server updates its share of the parameters,
// so the state of the optimizer exists once in the whole job. A server adds the gradients in the order of the ranks.
// The result therefore does not depend on timing, and is the same as with DistributedDataParallel. The model must
// outlive the ParameterServer. Only one thread may use it. (Dean et al., "Large scale distributed deep networks", NIPS
// 2012; Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014. In both papers workers
// may run ahead of each other; here they may not.)
class ParameterServer {
 public:
  // Collective. `servers` must be at least 1, and at most the number of ranks and the number of parameters.
  ParameterServer(nn::Module& model, std::shared_ptr<ProcessGroup> group, int servers);
  ~ParameterServer();
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

  bool is_server() const { return group_->rank() < static_cast<int>(shards_.size()); }
  // Returns the parameters that this server keeps, under their names in the model. Throws an Error on a rank that is
  // not a server.
  const std::vector<NamedTensor>& kept() const;

  // Calls `update` on the servers, where the gradients of the kept parameters are then the means over all ranks. Sends
  // the updated parameters to all ranks. Collective. Throws an Error if a parameter has no gradient.
  void step(const std::function<void()>& update);

 private:
  // The parameters that one server keeps, and the messages about them. Every rank has the shards of all servers. Server
  // s keeps shards_[s].
  struct Shard {
    Shard(std::vector<NamedTensor> parameters, ProcessGroup& group);
    std::vector<NamedTensor> parameters;
    FlatParameters gradients;  // the gradients of `parameters` are views of it
    FlatParameters values;     // the message with the updated parameters
  };

  // Runs on a server. Waits for the gradients of all ranks, updates the parameters and sends them to all ranks.
  // arrivals[r] is the message from rank r, or null for this rank.
  void serve(Shard& shard, const std::vector<std::shared_ptr<Work>>& arrivals, const std::function<void()>& update);

  std::shared_ptr<ProcessGroup> group_;
  std::vector<Shard> shards_;
  std::vector<Array> pushed_;  // on servers, by rank: the gradients; those of this rank are the memory of its shard
};

}  // namespace tandem::distributed
