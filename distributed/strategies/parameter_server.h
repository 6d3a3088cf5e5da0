// ParameterServer: some ranks keep the parameters and update them; all send them gradients and fetch the result.
#pragma once

#include <tandem/distributed/strategies/flat_parameters.h>
#include <tandem/optim/optimizer.h>

#include <functional>
#include <memory>
#include <vector>

namespace tandem::distributed {

// Which parameters each of `servers` servers keeps: indices into `parameters`, ascending. Whole parameters, the largest
// first, each given to the server with the fewest bytes so far.
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
// Ranks 0 to servers - 1 serve, and every rank works, servers too: a rank that only served would do nothing while the
// others compute, and a program would have two roles. Each server has the optimizer of its share of the parameters, and
// so its state, once in the whole job. It adds up the gradients in the order of the ranks, so the result does not
// depend on timing and is that of DistributedDataParallel. The model must outlive it. One thread. (Dean et al., "Large
// scale distributed deep networks", NIPS 2012; Li et al., "Scaling distributed machine learning with the parameter
// server", OSDI 2014; both also let workers run ahead of each other, which this does not.)
class ParameterServer {
 public:
  using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(std::vector<NamedTensor>)>;

  // Collective. `servers`: 1 to the number of ranks, and of parameters. `make_optimizer` is called on each server with
  // the parameters that it keeps, under their names in the model.
  ParameterServer(nn::Module& model, std::shared_ptr<ProcessGroup> group, int servers,
                  const MakeOptimizer& make_optimizer);

  // One update from the mean of all ranks' gradients. Collective. Error when a parameter has no gradient.
  void step();

 private:
  // What one server keeps. The rank of the server is the position in shards_.
  struct Shard {
    Shard(std::vector<NamedTensor> parameters, ProcessGroup& group);
    std::vector<NamedTensor> parameters;
    FlatParameters gradients;  // the parameters' gradients are views of it
    FlatParameters values;     // the message that brings new parameters
  };

  void serve(Shard& shard, const std::vector<std::shared_ptr<Work>>& arrivals);

  std::shared_ptr<ProcessGroup> group_;
  std::vector<Shard> shards_;
  std::vector<Array> pushed_;                    // servers: each rank's gradients; its own are in the shard
  std::unique_ptr<optim::Optimizer> optimizer_;  // servers
};

}  // namespace tandem::distributed
