// ParameterServer: some ranks keep and update the parameters. All ranks send gradients to them and fetch the results.
#pragma once

#include <tandem/distributed/strategies/flat_parameters.h>
#include <tandem/optim/optimizer.h>

#include <functional>
#include <memory>
#include <vector>

namespace tandem::distributed {

// Which parameters each of `servers` servers keeps, as ascending indices into `parameters`. Parameters are not cut.
// They are given away from the largest to the smallest, each to the server with the fewest bytes so far.
std::vector<std::vector<std::size_t>> divide_parameters(const std::vector<NamedTensor>& parameters, int servers);

// The synchronous parameter server:
//
//   ParameterServer server(model, group, 2, [](auto parameters) {
//     return std::make_unique<optim::SGD>(std::move(parameters), optim::SgdOptions{.lr = 0.1, .momentum = 0.9});
//   });                                       // every rank now holds rank 0's parameters and buffers
//   model.zero_grad();
//   loss(model(images), labels).backward();
//   server.step();                            // push gradients, update where the parameters live, pull parameters
//
// Ranks 0 to servers - 1 are servers, and every rank trains, the servers too. A rank that only served would do nothing
// while the others compute, and a program would have two roles. Each server has an optimizer for its share of the
// parameters, so the state of the optimizer exists once in the whole job. A server adds up the gradients in the order
// of the ranks. So the result does not depend on timing, and it is that of DistributedDataParallel. The model must
// outlive the ParameterServer. For one thread. (Dean et al., "Large scale distributed deep networks", NIPS 2012; Li et
// al., "Scaling distributed machine learning with the parameter server", OSDI 2014. In both papers workers may run
// ahead of each other; here they may not.)
class ParameterServer {
 public:
  using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(std::vector<NamedTensor>)>;

  // Collective. `servers` is at least 1, and at most the number of ranks and the number of parameters. `make_optimizer`
  // is called on each server, with the parameters that the server keeps, under their names in the model.
  ParameterServer(nn::Module& model, std::shared_ptr<ProcessGroup> group, int servers,
                  const MakeOptimizer& make_optimizer);

  // Makes one update from the mean of all ranks' gradients. Collective. Error when a parameter has no gradient.
  void step();

 private:
  // The parameters that one server keeps, and the messages about them. Every rank has the shards of all servers. Server
  // s keeps shards_[s].
  struct Shard {
    Shard(std::vector<NamedTensor> parameters, ProcessGroup& group);
    std::vector<NamedTensor> parameters;
    FlatParameters gradients;  // the gradients of `parameters` are views of it
    FlatParameters values;     // the message with the updated parameters
  };

  // On a server: waits for the gradients of all ranks, updates the parameters and sends them to all ranks. arrivals[r]
  // is the message from rank r; null for this rank.
  void serve(Shard& shard, const std::vector<std::shared_ptr<Work>>& arrivals);

  std::shared_ptr<ProcessGroup> group_;
  std::vector<Shard> shards_;
  std::vector<Array> pushed_;  // on servers, by rank: the gradients; those of this rank are the memory of its shard
  std::unique_ptr<optim::Optimizer> optimizer_;  // on servers
};

}  // namespace tandem::distributed
