#include <tandem/distributed/distributed_data_parallel.h>

#include <tandem/nn/batch_norm.h>

#include <sstream>

namespace tandem::distributed {
namespace {

// One line for every tensor that the ranks must have in common.
std::string describe(const nn::Module& model) {
  std::ostringstream text;
  for (const auto& [name, tensor] : model.parameters()) {
    text << "parameter " << name << ' ' << tensor.dtype() << ' ' << tensor.shape()
         << (tensor.requires_grad() ? "" : " without gradient") << '\n';
  }
  for (const auto& [name, tensor] : model.buffers()) {
    text << "buffer " << name << ' ' << tensor.dtype() << ' ' << tensor.shape() << '\n';
  }
  return text.str();
}

// Every rank sees all descriptions and so throws the same error.
void check_equal_models(const nn::Module& model, ProcessGroup& group) {
  const auto descriptions = group.all_gather_strings(describe(model), "comparison of the models");
  for (int r = 1; r < group.size(); ++r) {
    if (descriptions[r] == descriptions[0]) continue;
    std::istringstream expected(descriptions[0]), found(descriptions[r]);
    std::string a, b;
    do {
      if (!std::getline(expected, a)) a = "nothing more";
      if (!std::getline(found, b)) b = "nothing more";
    } while (a == b);
    detail::fail("the models of rank 0 and rank ", r, " differ: rank 0 has ", a, ", rank ", r, " has ", b,
                 ". Every rank must build the same model");
  }
}

std::size_t batch_norm_buffers(const nn::Module& module) {
  if (dynamic_cast<const nn::BatchNorm2d*>(&module) != nullptr) return module.buffers().size();
  std::size_t count = 0;
  for (const auto& [name, child] : module.children()) count += batch_norm_buffers(*child);
  return count;
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(nn::Module& model, std::shared_ptr<ProcessGroup> group,
                                                 BucketSizes sizes)
    : model_(model),
      group_(std::move(group)),
      buffers_read_in_training_(batch_norm_buffers(model) < model.buffers().size()) {
  if (group_->size() > 1) {
    check_equal_models(model_, *group_);
    std::vector<std::shared_ptr<Work>> works;
    for (const auto& [name, tensor] : model_.parameters())
      works.push_back(group_->broadcast(tensor.value(), 0, name));
    for (const auto& work : works) work->wait();
    sync_buffers();
  }
  reducer_ = std::make_unique<Reducer>(model_.parameters(), group_, sizes);
}

// PyTorch copies rank 0's buffers to all ranks before every training forward. What a batch norm computes in
// training does not depend on its running statistics, and rank 0's are fed by rank 0's batches alone in
// either case: copying them when training has ended and somebody is about to read them gives the same numbers
// everywhere, without a message per step. Any other buffer might be read in training, and is copied before
// every training forward as PyTorch does.
Tensor DistributedDataParallel::operator()(const Tensor& input) {
  const bool training = model_.is_training();
  if (buffers_changed_ && (!training || buffers_read_in_training_)) sync_buffers();
  buffers_changed_ = buffers_changed_ || training;
  return model_(input);
}

void DistributedDataParallel::eval() {
  model_.eval();
  if (buffers_changed_) sync_buffers();
}

void DistributedDataParallel::sync_buffers() {
  buffers_changed_ = false;
  const auto buffers = model_.buffers();
  if (group_->size() == 1 || buffers.empty()) return;
  // One message for all of them, each at a multiple of 8 bytes.
  const auto padded = [](const Array& a) { return static_cast<std::int64_t>((a.bytes() + 7) / 8 * 8); };
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : buffers) bytes += padded(tensor.value());
  const auto message = Array::empty({bytes}, DType::u8, buffers[0].tensor.device());
  std::vector<Array> views;
  std::int64_t offset = 0;
  for (const auto& [name, tensor] : buffers) {
    const Array& value = tensor.value();
    auto storage = storage_slice(message.storage(), static_cast<std::size_t>(offset), value.bytes());
    views.emplace_back(std::move(storage), value.shape(), contiguous_strides(value.shape()), 0,
                       value.dtype());
    views.back().copy_from(value);
    offset += padded(value);
  }
  group_->broadcast(message, 0, "buffers")->wait();
  if (group_->rank() == 0) return;
  for (std::size_t i = 0; i < buffers.size(); ++i) Array(buffers[i].tensor.value()).copy_from(views[i]);
}

}  // namespace tandem::distributed
