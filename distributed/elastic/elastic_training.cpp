#include <tandem/autograd/functions.h>
#include <tandem/data/sampler.h>
#include <tandem/distributed/ddp/share_optimizer.h>
#include <tandem/distributed/ddp/sync_batch_norm.h>
#include <tandem/distributed/elastic/change_watch.h>
#include <tandem/distributed/elastic/elastic_training.h>
#include <tandem/distributed/groups/host/host_group.h>
#include <tandem/distributed/groups/local_group.h>
#include <tandem/distributed/job/init.h>
#include <tandem/distributed/job/job_store.h>
#include <tandem/distributed/job/program.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <sstream>
#include <utility>

namespace tandem::distributed {
namespace {

// This many generations in a row without a step are no accident: the ranks don't run the same operations, or a rank
// always dies in its first step.
constexpr int most_failures = 10;

void check(nn::Module& model, const ElasticOptions& options) {
  TANDEM_CHECK(options.samples > 0 && options.batch_size > 0 && options.epochs > 0,
               "ElasticTraining: samples = ", options.samples, ", batch_size = ", options.batch_size,
               ", epochs = ", options.epochs, ": expected numbers above 0");
  TANDEM_CHECK(options.min_ranks > 0 && options.timeout >= std::chrono::milliseconds(100),
               "ElasticTraining: min_ranks = ", options.min_ranks, ", timeout = ", options.timeout.count(),
               " ms: expected at least 1, and 100 ms");
  TANDEM_CHECK(options.backend != GroupBackend::nccl && options.backend != GroupBackend::mpi,
               "ElasticTraining: the backend ", name_of(options.backend), " can't lose a rank: use auto, shm or gloo");
  for (const auto& [name, tensor] : model.parameters())
    TANDEM_CHECK(tensor.device().is_cpu(), "ElasticTraining: parameter ", name, " is on ", tensor.device(),
                 "; elastic training works on the CPU only");
  for (const auto& [name, module] : model.modules())
    TANDEM_CHECK(!dynamic_cast<const SyncBatchNorm*>(&module), "ElasticTraining: ", name,
                 " is a SyncBatchNorm, whose process group does not survive a rank: use BatchNorm2d");
}

}  // namespace

ElasticTraining::ElasticTraining(nn::Module& model, optim::Optimizer& optimizer, const ElasticOptions& options)
    : model_(model), optimizer_(optimizer), options_(options), tensors_(model.buffers()), buffers_(tensors_.size()) {
  check(model, options);
  for (auto& parameter : model.parameters()) tensors_.push_back(std::move(parameter));
  connect();
  with_group([] {});
}

ElasticTraining::~ElasticTraining() {
  if (membership_) membership_->change();
}

void ElasticTraining::connect() {
  const auto environment = environment_for("env://");
  if (!environment.is_elastic) {
    if (environment.world_size == 1) return;
    throw UsageError("this program trains elastically, and its launcher does not: start it with tandemrun --elastic");
  }
  const auto open_store = [&] {
    return prefix_store("tandem/" + environment.run_id + "/elastic", open_job_store(environment, options_.timeout));
  };
  auto store = open_store();
  watch_store_ = open_store();
  observers_.push_back([this](const ObservedGroup& group) -> std::unique_ptr<OperationObserver> {
    return std::make_unique<ChangeWatch>(watch_store_, membership_->changed_key(), [this, fail = group.fail] {
      has_changed_ = true;
      fail("the members of the job have changed");
    });
  });
  for (const auto& observers_of : job_observers.entries())
    std::ranges::copy(observers_of(environment, *store), std::back_inserter(observers_));
  membership_ = std::make_unique<Membership>(
      std::move(store),
      Membership::Options{environment.rank, environment.world_size, options_.timeout, options_.min_ranks});
}

// Calls `act` with a process group, in one generation after the other until it succeeds. Does nothing after the end.
void ElasticTraining::with_group(const std::function<void()>& act) {
  for (;;) {
    try {
      if (!ddp_ && !join()) return;
      if (has_changed_) throw PeerError("the members of the job have changed");
      return act();
    } catch (const PeerError&) {
      if (!membership_ || ++failures_ > most_failures) throw;
      leave();
    }
  }
}

// Returns false if the training has ended.
bool ElasticTraining::join() {
  if (!membership_) {
    group_ = local_group();
  } else if (!membership_->join(has_weights_ ? position_.steps : -1)) {
    is_over_ = true;
    return false;
  }
  try {
    has_changed_ = false;
    if (membership_) connect_members();
    receive_state();
  } catch (const PeerError&) {
    throw;
  } catch (const std::exception& error) {
    // A rank that dies while the others connect to it causes many kinds of errors.
    if (membership_ && membership_->has_changed()) throw PeerError(error.what());
    throw;
  }
  if (membership_ && membership_->generation() > 1 && is_lead())
    std::cerr << "note: generation " << membership_->generation() << " of the training continues after step " << steps()
              << " with " << size() << (size() == 1 ? " rank (" : " ranks (") << membership_->difference() << ")"
              << std::endl;
  return true;
}

// A member that is stopped or dies meanwhile causes many kinds of errors here, and the others must not fail for it.
void ElasticTraining::connect_members() try {
  group_ = host_group(membership_->group_store(), {.rank = membership_->rank(),
                                                   .size = membership_->size(),
                                                   .timeout = options_.timeout / 2,
                                                   .backend = options_.backend,
                                                   .observers = observers_});
} catch (const PeerError&) {
  throw;
} catch (const Error& error) {
  throw PeerError(error.what());
}

// Copies the state of rank 0, which has made the most steps, to all ranks. Collective.
void ElasticTraining::receive_state() {
  std::ostringstream said;
  said << options_.samples << ' ' << options_.batch_size << ' ' << options_.epochs << ' ' << options_.shuffle << ' '
       << options_.seed << '\n'
       << position_.epoch << ' ' << position_.samples << ' ' << position_.steps;
  std::istringstream mine(said.str()), heard(group_->broadcast_string(said.str(), 0, "position"));
  std::string options, expected;
  std::getline(mine, options);
  std::getline(heard, expected);
  TANDEM_CHECK(options == expected, "ElasticTraining: samples, batch_size, epochs, shuffle and seed are ", options,
               " here, and ", expected, " on rank 0: pass the same options on all ranks");
  Position position;
  heard >> position.epoch >> position.samples >> position.steps;
  // While this rank has only some of the new values, its old ones must not be lost: the others might die.
  if (has_weights_ && position.steps != position_.steps) save(tensors_.size());
  ddp_ = std::make_unique<DistributedDataParallel>(model_, group_);
  share_optimizer(optimizer_, Device{}, *group_, 0);
  position_ = position;
  has_weights_ = true;
  saved_ = 0;
}

// Leaves the generation, and returns to the state after the last step that is done.
void ElasticTraining::leave() {
  membership_->change();
  if (ddp_) was_lead_ = rank() == 0;
  ddp_.reset();
  group_.reset();
  for (std::size_t i = 0; i < std::exchange(saved_, 0); ++i) Array(tensors_[i].tensor.value()).copy_from(values_[i]);
}

void ElasticTraining::save(std::size_t tensors) {
  values_.resize(std::max(values_.size(), tensors));
  for (std::size_t i = 0; i < tensors; ++i) {
    const Array& value = tensors_[i].tensor.value();
    if (values_[i].defined()) values_[i].copy_from(value);
    else values_[i] = value.clone();
  }
  saved_ = tensors;
}

bool ElasticTraining::step(const MeanLoss& mean_loss) {
  if (is_over_) return false;
  bool is_done = false;
  with_group([&] {
    if (epoch() == options_.epochs) {
      if (membership_) membership_->finish();
      is_over_ = true;
      return;
    }
    const Share share = next_share();
    compute(mean_loss, share);
    optimizer_.step();
    advance(share.all);
    is_done = true;
  });
  return is_done;
}

ElasticTraining::Share ElasticTraining::next_share() {
  if (order_epoch_ != epoch()) {
    data::DistributedSampler sampler(options_.samples, {.shuffle = options_.shuffle, .seed = options_.seed});
    sampler.set_epoch(order_epoch_ = epoch());
    order_ = sampler.indices();
  }
  const std::int64_t left = options_.samples - position_.samples;
  Share share{std::min(options_.batch_size * size(), left), {}};
  const std::int64_t least = std::min<std::int64_t>(options_.batch_size, 2);
  if (left - share.all == 1 && least == 2) ++share.all;
  const std::int64_t ranks = std::clamp<std::int64_t>(share.all / least, 1, size());
  for (std::int64_t i = rank(); rank() < ranks && i < share.all; i += ranks)
    share.mine.push_back(order_[static_cast<std::size_t>(position_.samples + i)]);
  return share;
}

void ElasticTraining::compute(const MeanLoss& mean_loss, const Share& share) {
  save(buffers_);  // forward changes running statistics
  optimizer_.zero_grad();
  Tensor loss = ddp_->forward([&] { return share.mine.empty() ? zero_loss() : mean_loss(share.mine); });
  // The ranks' gradients are averaged with equal weights, so a rank with more samples needs a larger loss.
  const auto mine = std::ssize(share.mine) * size();
  if (mine != share.all) loss = loss * (static_cast<double>(mine) / static_cast<double>(share.all));
  loss.backward();
}

// Returns a loss whose gradients are zeros, for a rank without samples.
Tensor ElasticTraining::zero_loss() const {
  Tensor loss = Tensor(Array::from(std::vector<float>{0}, {}));
  for (const auto& [name, tensor] : model_.parameters())
    if (tensor.requires_grad()) loss = loss + sum(tensor) * 0;
  return loss;
}

void ElasticTraining::advance(std::int64_t samples) {
  saved_ = 0;
  failures_ = 0;
  if (membership_ && position_.steps == 0) membership_->begin();
  ++position_.steps;
  position_.samples += samples;
  if (position_.samples == options_.samples) position_ = {epoch() + 1, 0, steps()};
}

}  // namespace tandem::distributed
