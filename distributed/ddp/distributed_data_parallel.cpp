#include <tandem/distributed/ddp/distributed_data_parallel.h>

#include <tandem/core/array/packing.h>
#include <tandem/core/device/recording.h>
#include <tandem/data/epoch.h>
#include <tandem/distributed/ddp/same_weights.h>
#include <tandem/distributed/system/version.h>
#include <tandem/nn/batch_norm.h>

#include <algorithm>
#include <bit>
#include <sstream>
#include <utility>

namespace tandem::distributed {
namespace {

constexpr const char* order_name = "gradient_order";
// A comparison reads all weights once. That takes less than 0.1 % of the time of this many steps.
constexpr std::int64_t passes_between_comparisons = 100;

// Whether the weights are compared after this pass, counted from 0. Most mistakes differ in the first steps already, so
// the comparisons begin with passes 0, 1, 2, 4, 8 and so on.
bool is_compared(std::int64_t pass) {
  return pass % passes_between_comparisons == 0 ||
         (pass < passes_between_comparisons && std::has_single_bit(static_cast<std::uint64_t>(pass)));
}

// Returns one line for every tensor that must be equal on all ranks.
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

// Throws an Error if the models differ. Every rank compares all descriptions, so all ranks throw the same Error.
// Returns whether all ranks run the same build on processors of the same kind.
bool check_equal_models(const nn::Module& model, ProcessGroup& group) {
  const auto described =
      group.all_gather_strings(describe(model) + '\f' + version_text(""), "comparison of the models");
  bool are_alike = true;
  for (int r = 1; r < group.size(); ++r) {
    if (described[r] == described[0]) continue;
    are_alike = false;
    std::istringstream expected(described[0]), found(described[r]);
    std::string a, b;
    do {
      if (!std::getline(expected, a) || a.starts_with('\f')) a = "nothing more";
      if (!std::getline(found, b) || b.starts_with('\f')) b = "nothing more";
    } while (a == b && a != "nothing more");
    TANDEM_CHECK(a == b, "the models of rank 0 and rank ", r, " differ: rank 0 has ", a, ", rank ", r, " has ", b,
                 ". Every rank must build the same model");
  }
  return are_alike;
}

std::size_t batch_norm_buffers(nn::Module& model) {
  std::size_t count = 0;
  for (const auto& [name, module] : model.modules())
    if (dynamic_cast<const nn::BatchNorm2d*>(&module) != nullptr) count += module.buffers().size();
  return count;
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(nn::Module& model, std::shared_ptr<ProcessGroup> group,
                                                 const DistributedDataParallelOptions& options)
    : model_(model),
      group_(required(std::move(group), "DistributedDataParallel")),
      buffers_read_in_training_(batch_norm_buffers(model) < model.buffers().size()),
      additions_(nn::additions()) {
  if (group_->size() > 1) {
    are_weights_compared_ = check_equal_models(model_, *group_) && options.compares_weights;
    share_parameters(0);
    share_buffers(0);
  }
  reducer_ = std::make_unique<Reducer>(model_.parameters(), group_, options.buckets, options.unused);
  reducer_->set_after_pass([this] { after_pass(); });
}

// PyTorch copies rank 0's buffers to all ranks before every forward pass of training. A batch norm needs that less
// often, because its result in training does not depend on its running statistics. They are therefore copied only when
// training has ended and a program is about to read them. The numbers are the same, and no step needs a message for
// them. Any other buffer might be read in training, so it is copied before every forward pass of training, except
// inside no_sync(), where nothing is sent. With StepRounds, the rank whose buffers count may change with every step, so
// they are copied every time.
void DistributedDataParallel::begin_forward() {
  const bool training = model_.is_training();
  if (training && grad_enabled()) {
    reducer_->begin_forward();
    check_parameters();
    if (rounds_) rounds_->begin_forward();
  }
  const bool read_in_training = (buffers_read_in_training_ || rounds_) && reducer_->is_synchronising();
  if (buffers_changed_ && (!training || read_in_training)) sync_buffers();
  buffers_changed_ = buffers_changed_ || training;
}

// Throws an Error if a parameter was added to the model after the reducer was made, because nothing averages it.
void DistributedDataParallel::check_parameters() {
  const std::uint64_t now = nn::additions();
  if (additions_ == now) return;
  const auto& known = reducer_->parameters();
  for (const auto& [name, tensor] : model_.parameters())
    TANDEM_CHECK(std::ranges::any_of(known, [&](const auto& one) { return one.tensor.same_as(tensor); }), "parameter ",
                 name,
                 " was added to the model after DistributedDataParallel was made, which does not average it: make "
                 "DistributedDataParallel when the model is complete");
  additions_ = now;
}

// All ranks make the same passes, but not always the same calls in between, so the comparison belongs here. A recorded
// step can't contain it, but the Trainer also compares the weights before each checkpoint.
void DistributedDataParallel::after_pass() {
  if (is_compared(passes_++) && !is_recording_graph()) check_same_weights();
}

void DistributedDataParallel::check_same_weights() {
  if (are_weights_compared_)
    distributed::check_same_weights(reducer_->parameters(), data::last_sharded_epoch(), *group_);
}

Tensor DistributedDataParallel::operator()(const Tensor& input) {
  return forward([&] { return model_(input); });
}

void DistributedDataParallel::train() {
  evaluation_.reset();
  if (!model_.is_training()) model_.train();
  buffers_changed_ = true;
}

void DistributedDataParallel::eval() {
  if (evaluation_ && model_.is_training()) evaluation_->keep();  // the program has changed the modes itself
  if (!evaluation_ || model_.is_training()) evaluation_.emplace(model_);
  model_.eval();
  if (buffers_changed_) sync_buffers();
}

void DistributedDataParallel::sync_buffers() {
  share_buffers(rounds_ && !model_.buffers().empty() ? rounds_->share_buffers() : 0);
}

std::vector<NamedArray> DistributedDataParallel::state_dict() const {
  const auto& order = reducer_->gradient_order();
  if (order.empty()) return {};
  return {{order_name, Array::from(order, {static_cast<std::int64_t>(order.size())})}};
}

void DistributedDataParallel::load_state_dict(const std::vector<NamedArray>& state) {
  if (state.empty()) return reducer_->set_gradient_order({});
  TANDEM_CHECK(state.size() == 1 && state[0].name == order_name, "DistributedDataParallel: the saved state has ",
               state.size(), " entries, the first named ", state[0].name, "; expected one, named ", order_name);
  TANDEM_CHECK(state[0].array.dtype() == DType::i64, "DistributedDataParallel: ", order_name, " is ",
               state[0].array.dtype(), ", expected ", DType::i64);
  try {
    reducer_->set_gradient_order(state[0].array.to_vector<std::int64_t>());
  } catch (const Error& error) {
    detail::fail("DistributedDataParallel: ", order_name, " is ", error.what());
  }
}

void DistributedDataParallel::share_parameters(int root) {
  std::vector<std::shared_ptr<Work>> works;
  for (const auto& [name, tensor] : model_.parameters()) works.push_back(group_->broadcast(tensor.value(), root, name));
  for (const auto& work : works) work->wait();
}

void DistributedDataParallel::share_buffers(int root) {
  buffers_changed_ = false;
  const auto buffers = model_.buffers();
  if (group_->size() == 1 || buffers.empty()) return;
  // Send all buffers in one message. All ranks use the same layout, because each array in the message is row-major.
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : buffers) bytes += packed_bytes(tensor.value().bytes());
  const auto message = Array::empty({static_cast<std::int64_t>(bytes)}, DType::u8, buffers[0].tensor.device());
  Packing packing(message.storage());
  std::vector<Array> views;
  for (const auto& [name, tensor] : buffers)
    views.emplace_back(packing.next(tensor.shape(), tensor.dtype())).copy_from(tensor.value());
  group_->broadcast(message, root, "buffers")->wait();
  if (group_->rank() == root) return;
  // On the CPU, each buffer becomes a view of the message. The graph of an earlier forward pass may have saved the old
  // array, which does not change. On a GPU, the numbers are copied into the old memory, because a recorded step writes
  // there.
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    Tensor buffer = buffers[i].tensor;
    if (buffer.device().is_cpu()) buffer.set_value(views[i]);
    else Array(buffer.value()).copy_from(views[i]);
  }
}

}  // namespace tandem::distributed
