#include <tandem/core/ops.h>
#include <tandem/distributed/strategies/parameter_server.h>

#include <algorithm>
#include <numeric>

namespace tandem::distributed {

std::vector<std::vector<std::size_t>> divide_parameters(const std::vector<NamedTensor>& parameters, int servers) {
  TANDEM_CHECK(servers >= 1 && static_cast<std::size_t>(servers) <= parameters.size(), servers, " servers for ",
               parameters.size(), " parameters: each server must keep at least one");
  const auto bytes = [&](std::size_t i) { return parameters[i].tensor.value().bytes(); };
  std::vector<std::size_t> by_size(parameters.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::stable_sort(by_size.begin(), by_size.end(), [&](auto a, auto b) { return bytes(a) > bytes(b); });

  std::vector<std::vector<std::size_t>> shares(servers);
  std::vector<std::size_t> load(servers);
  for (const std::size_t i : by_size) {
    const auto least = std::min_element(load.begin(), load.end()) - load.begin();
    shares[least].push_back(i);
    load[least] += bytes(i);
  }
  for (auto& share : shares) std::sort(share.begin(), share.end());
  return shares;
}

ParameterServer::Shard::Shard(std::vector<NamedTensor> given, ProcessGroup& group)
    : parameters(std::move(given)), gradients(parameters, group), values(parameters, group) {
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].tensor.set_grad_buffer(gradients.parts[i]);
}

ParameterServer::ParameterServer(nn::Module& model, std::shared_ptr<ProcessGroup> group, int servers)
    : group_(required(std::move(group), "ParameterServer")) {
  TANDEM_CHECK(servers >= 1 && servers <= group_->size(), servers, " servers in a group of ", group_->size(),
               ": servers are ranks of the group");
  broadcast_state(model, *group_);
  const auto parameters = trained_parameters(model);
  for (const auto& share : divide_parameters(parameters, servers)) {
    std::vector<NamedTensor> kept;
    for (const std::size_t i : share) kept.push_back(parameters[i]);
    shards_.emplace_back(std::move(kept), *group_);
  }
  if (!is_server()) return;
  const Shard& mine = shards_[group_->rank()];
  for (int r = 0; r < group_->size(); ++r)
    pushed_.push_back(r == group_->rank() ? mine.gradients.memory : ops::empty_like(mine.gradients.memory));
}

ParameterServer::~ParameterServer() {
  for (Shard& shard : shards_)
    for (auto& [name, tensor] : shard.parameters) tensor.release_grad_buffer();
}

const std::vector<NamedTensor>& ParameterServer::kept() const {
  TANDEM_CHECK(is_server(), "ParameterServer: rank ", group_->rank(), " is not a server and keeps no parameters");
  return shards_[group_->rank()].parameters;
}

void ParameterServer::step(const std::function<void()>& update) {
  const int rank = group_->rank(), servers = static_cast<int>(shards_.size());
  for (const auto& shard : shards_) check_gradients(shard.parameters, rank);

  std::vector<std::shared_ptr<Work>> pushes, arrivals, pulls;
  for (int s = 0; s < servers; ++s) {
    if (s != rank) pushes.push_back(group_->send(shards_[s].gradients.memory, s, "gradients"));
  }
  // Start every receive before the first wait, so no sending rank waits for another rank.
  for (int r = 0; r < group_->size() && rank < servers; ++r) {
    arrivals.push_back(r == rank ? nullptr : group_->receive(pushed_[r], r, "gradients"));
  }
  for (int s = 0; s < servers; ++s) {
    pulls.push_back(s == rank ? nullptr : group_->receive(shards_[s].values.memory, s, "parameters"));
  }

  if (is_server()) serve(shards_[rank], arrivals, update);
  for (int s = 0; s < servers; ++s) {
    if (s == rank) continue;
    pulls[s]->wait();
    for (std::size_t i = 0; i < shards_[s].parameters.size(); ++i)
      Array(shards_[s].parameters[i].tensor.value()).copy_from(shards_[s].values.parts[i]);
  }
  for (const auto& push : pushes) push->wait();
}

void ParameterServer::serve(Shard& shard, const std::vector<std::shared_ptr<Work>>& arrivals,
                            const std::function<void()>& update) {
  auto mean =
      ops::zeros(shard.gradients.memory.shape(), shard.gradients.memory.dtype(), shard.gradients.memory.device());
  for (int r = 0; r < group_->size(); ++r) {
    if (arrivals[r]) arrivals[r]->wait();
    ops::scale_(pushed_[r], 1.0 / group_->size());
    ops::add_(mean, pushed_[r]);
  }
  shard.gradients.memory.copy_from(mean);
  update();

  for (std::size_t i = 0; i < shard.parameters.size(); ++i)
    shard.values.parts[i].copy_from(shard.parameters[i].tensor.value());
  std::vector<std::shared_ptr<Work>> works;
  for (int r = 0; r < group_->size(); ++r) {
    if (r != group_->rank()) works.push_back(group_->send(shard.values.memory, r, "parameters"));
  }
  for (const auto& work : works) work->wait();
}

}  // namespace tandem::distributed
