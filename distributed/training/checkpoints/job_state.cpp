#include <tandem/autograd/anomaly.h>
#include <tandem/core/array/text_array.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/training/checkpoints/job_state.h>
#include <tandem/distributed/training/metrics/console.h>

#include <algorithm>
#include <utility>

namespace tandem::distributed {
namespace {

// A checkpoint stores the arrays of the GradScaler among those of the optimizer, with this prefix.
const std::string scaling_prefix = "grad_scaler/";

// The names of the arrays of DiLoCo have this prefix, in the state of all ranks and in that of a single rank.
const std::string diloco_prefix = "diloco/";

// The names of a StatefulHook's arrays have this prefix.
const std::string hook_prefix = "hook/";

void append(std::vector<NamedArray>& arrays, const std::string& prefix, const std::vector<NamedArray>& more) {
  for (const auto& [name, array] : more) arrays.push_back({prefix + name, array});
}

// Moves the arrays whose names begin with `prefix` out of `arrays`, and removes the prefix from their names.
std::vector<NamedArray> take(std::vector<NamedArray>& arrays, const std::string& prefix) {
  std::vector<NamedArray> taken;
  std::erase_if(arrays, [&](const NamedArray& entry) {
    const bool fits = entry.name.starts_with(prefix);
    if (fits) taken.push_back({entry.name.substr(prefix.size()), entry.array});
    return fits;
  });
  return taken;
}

}  // namespace

template <class T>
JobState::Kept JobState::as_kept(const std::string& name, T& object) {
  return {name, [&object] { return object.state_dict(); },
          [&object](const std::vector<NamedArray>& state) { object.load_state_dict(state); }};
}

JobState::JobState(ProcessGroup& group, DistributedDataParallel& ddp, optim::GradScaler& scaler, ZeroRedundancy* zero)
    : group_(group), ddp_(ddp), scaler_(scaler), zero_(zero), inner_{as_kept("scaler", scaler)} {}

void JobState::add(optim::Optimizer& optimizer) {
  inner_.push_back({"optimizer" + std::to_string(inner_.size()), [this, &optimizer] { return state_of(optimizer); },
                    [this, &optimizer](const std::vector<NamedArray>& state) { load(optimizer, state); }});
  optimizers_.push_back(&optimizer);
  if (optimizers_.size() > 1) keep(inner_.back());
}

void JobState::add(DiLoCo& diloco) {
  diloco_ = &diloco;
  keep(as_kept("diloco", diloco));
}

std::vector<NamedArray> JobState::state_of(const optim::Optimizer& optimizer) const {
  const auto found = gathered_.find(&optimizer);
  return found == gathered_.end() ? optimizer.state_dict() : found->second;
}

void JobState::load(optim::Optimizer& optimizer, const std::vector<NamedArray>& state) const {
  zero_ ? zero_->load_state_dict(optimizer, state) : optimizer.load_state_dict(state);
}

std::string JobState::prefix_of(std::size_t optimizer) const {
  return optimizer == 0 ? optimizer_prefix : kept_prefix + inner_[optimizer + 1].name + '/';
}

void JobState::gather(bool keeps_shards) {
  if (!zero_) return;
  gathered_.clear();
  divided_.clear();
  for (std::size_t i = 0; i < optimizers_.size(); ++i) {
    auto& common = gathered_[optimizers_[i]];
    if (!keeps_shards) common = zero_->state_dict(*optimizers_[i]);
    const auto mine = keeps_shards ? optimizers_[i]->state_dict() : std::vector<NamedArray>();
    const auto parameters = ZeroRedundancy::divided(*optimizers_[i], mine);
    for (const auto& entry : mine) {
      const auto found = parameters.find(entry.name);
      if (found == parameters.end()) {
        common.push_back(entry);
        continue;
      }
      const Array& value = found->second.value();
      divided_[prefix_of(i) + entry.name] = {value.shape(), value.strides()};
      shards_.push_back({prefix_of(i) + entry.name, entry.array});
    }
  }
  if (group_.rank() != 0) gathered_.clear();
}

// The model's own check has compared the shapes. The order of the elements in memory is not a part of a state dict.
void JobState::check_layouts(const TrainingState& state) const {
  if (!zero_ || group_.size() == 1) return;  // the optimizer gets whole arrays
  for (std::size_t i = 0; i < optimizers_.size(); ++i) {
    std::vector<NamedArray> entries;
    for (const auto& [name, layout] : state.divided)
      if (name.starts_with(prefix_of(i))) entries.push_back({name.substr(prefix_of(i).size()), {}});
    for (const auto& [name, parameter] : ZeroRedundancy::divided(*optimizers_[i], entries)) {
      const Layout& saved = state.divided.at(prefix_of(i) + name);
      TANDEM_CHECK(saved == Layout({parameter.value().shape(), parameter.value().strides()}), name,
                   " was divided in the order of the strides ", saved.strides, ", but this model's are ",
                   parameter.value().strides(),
                   ": resume once with --strategy ddp, which can read it, and save a checkpoint in one file");
    }
  }
}

void JobState::keep(Kept kept) {
  TANDEM_CHECK(!kept.name.empty() && kept.name.find('/') == std::string::npos, "keep: \"", kept.name,
               "\" is not a valid name: expected text without a slash");
  for (const auto& other : kept_)
    TANDEM_CHECK(other.name != kept.name, "keep: the name \"", kept.name, "\" is already taken: choose another name");
  kept_.push_back(std::move(kept));
}

void JobState::require_finite() const {
  const auto check = [](const std::vector<NamedTensor>& tensors, bool infinities) {
    const DetectAnomaly detect({.infinities = infinities});
    for (const auto& [name, tensor] : tensors) {
      const auto found = autograd::anomaly_in(tensor.value());
      TANDEM_CHECK(found.empty(), "no checkpoint is written, because of ", name, " in the model: ", found);
    }
  };
  check(ddp_.model().parameters(), true);
  check(ddp_.model().buffers(), false);  // a mask may have infinities
}

void JobState::fill(TrainingState& state) {
  state.model = ddp_.model().state_dict();
  if (!optimizers_.empty()) state.optimizer = state_of(*optimizers_[0]);
  append(state.optimizer, scaling_prefix, scaler_.state_dict());
  state.ddp = ddp_.state_dict();
  for (const auto& kept : kept_) append(state.kept, kept.name + "/", kept.state_dict());
  state.divided = std::exchange(divided_, {});
  gathered_.clear();
}

std::vector<NamedArray> JobState::of_rank(const std::string& generator, const std::string& generator_now) {
  std::vector<NamedArray> state = std::exchange(shards_, {});
  // Most programs draw the same random numbers on all ranks. The generator's state is then only in the metadata.
  const std::string mine = generator + '\n' + generator_now;
  if (group_.broadcast_string(mine, 0, "random numbers of rank 0") != mine) {
    state.push_back({"generator", text_array(generator)});
    state.push_back({"generator_now", text_array(generator_now)});
  }
  if (const auto* const stateful = ddp_.communication_hook().stateful())
    append(state, hook_prefix, stateful->state_dict());
  if (!diloco_) return state;
  append(state, diloco_prefix, diloco_->rank_state_dict());
  if (group_.rank() == 0) return state;  // fill() stores the optimizers of rank 0
  for (const auto& inner : inner_) append(state, inner.name + "/", inner.state_dict());
  return state;
}

void JobState::restore(TrainingState& state, const std::function<void(const std::string&)>& note) {
  ddp_.model().load_state_dict(state.model);
  check_layouts(state);
  if (diloco_) diloco_->restart();
  scaler_.load_state_dict(take(state.optimizer, scaling_prefix));
  if (!optimizers_.empty()) load(*optimizers_[0], state.optimizer);
  restore_kept(state.kept, note);
  restore_ranks(state, note);
  for (auto* const arrays : {&state.model, &state.optimizer, &state.ddp, &state.kept, &state.of_rank}) arrays->clear();
}

std::function<void()> JobState::remember() {
  std::vector<Kept> all{as_kept("model", ddp_.model())};
  all.insert(all.end(), kept_.begin(), kept_.end());
  all.push_back(as_kept("scaler", scaler_));
  all.push_back(as_kept("ddp", ddp_));
  if (!optimizers_.empty()) all.push_back(inner_[1]);  // the first optimizer; kept_ has the others
  if (auto* const hook = ddp_.communication_hook().stateful()) all.push_back(as_kept("hook", *hook));
  std::vector<std::vector<NamedArray>> states;
  for (const auto& kept : all)
    for (auto& entry : states.emplace_back(kept.state_dict())) entry.array = entry.array.clone();
  return [all, states, generator = default_generator()] {
    for (std::size_t i = 0; i < all.size(); ++i) all[i].load_state_dict(states[i]);
    default_generator() = generator;
  };
}

void JobState::restore_kept(const std::vector<NamedArray>& arrays,
                            const std::function<void(const std::string&)>& note) {
  auto left = arrays;
  for (const auto& kept : kept_) {
    const auto mine = take(left, kept.name + "/");
    if (mine.empty()) note("note: the checkpoint has no \"" + kept.name + "\", which starts afresh");
    else kept.load_state_dict(mine);
  }
  if (!left.empty())
    note("note: ignored, as not kept by this run: object \"" + left[0].name.substr(0, left[0].name.find('/')) + "\"");
}

// Restores the rest of the state on which the next steps depend. It fits only the ranks that wrote it.
void JobState::restore_ranks(TrainingState& state, const std::function<void(const std::string&)>& note) {
  const auto hook = take(state.of_rank, hook_prefix);
  const bool has_own =
      std::ranges::any_of(state.kept, [](const NamedArray& entry) { return entry.name.starts_with(diloco_prefix); });
  if (state.world_size != group_.size()) {
    std::string left_out;
    const auto leave_out = [&](const std::string& what) { left_out += (left_out.empty() ? "" : ", ") + what; };
    if (!state.ddp.empty()) leave_out("order of gradients in the buckets");
    if (!hook.empty()) leave_out("state of the communication hook");
    if (has_own) leave_out("weights and optimizer state of each rank");
    if (state.has_own_random_numbers) leave_out("random numbers of each rank, which start again");
    else default_generator().set_state(state.generator);
    if (!left_out.empty())
      note("note: " + counted(state.world_size, "process", "es") + " wrote the checkpoint; ignored its " + left_out);
    return;
  }
  try {
    const bool has_buckets = !zero_ || !zero_->divides_gradients();
    if (has_buckets) ddp_.load_state_dict(state.ddp);
  } catch (const Error& error) {
    note("note: the order of the gradients in the checkpoint is left out: " + std::string(error.what()));
  }
  auto* const stateful = ddp_.communication_hook().stateful();
  if (!hook.empty() && !stateful)
    note("note: this run has no such communication hook and ignores the state of the checkpoint's hook");
  if (!hook.empty() && stateful) stateful->load_state_dict(hook);
  if (diloco_ && has_own) restore_own(state.of_rank);
  for (const auto& [name, array] : state.of_rank) {
    if (name == "generator") state.generator = text_of(array);
    if (name == "generator_now") state.generator_now = text_of(array);
  }
  default_generator().set_state(state.generator);
}

void JobState::restore_own(std::vector<NamedArray>& arrays) {
  diloco_->load_rank_state_dict(take(arrays, diloco_prefix));
  if (group_.rank() == 0) return;
  for (const auto& inner : inner_) inner.load_state_dict(take(arrays, inner.name + "/"));
}

}  // namespace tandem::distributed
