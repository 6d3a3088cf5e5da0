#include <tandem/core/array/packing.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/ddp/reducer.h>

#include <algorithm>
#include <iostream>
#include <utility>

namespace tandem::distributed {

Reducer::Reducer(std::vector<NamedTensor> parameters, std::shared_ptr<ProcessGroup> group, BucketSizes sizes,
                 Unused unused)
    : parameters_(std::move(parameters)),
      group_(std::move(group)),
      sizes_(sizes),
      unused_(unused),
      number_(group_->next_number()),
      bucket_of_(parameters_.size()),
      used_(parameters_.size()),
      state_(parameters_.size()) {
  for (const auto& [name, tensor] : parameters_)  // check before adding hooks, which would outlive an error
    TANDEM_CHECK(!tensor.requires_grad() || !tensor.has_grad_buffer(), "parameter ", name,
                 " belongs to another DistributedDataParallel, which would average nothing from now on: use that "
                 "object, or destroy it first. A Trainer makes its own");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& tensor = parameters_[i].tensor;
    if (!tensor.requires_grad()) {
      frozen_.push_back(i);
      continue;
    }
    reduced_.push_back(i);
    hook_handles_.push_back(tensor.on_grad_ready([this, i] { gradient_ready(i); }));
  }
  make_buckets(assign_buckets(parameters_, reverse_registration_order(parameters_), sizes_));
}

Reducer::~Reducer() {
  for (auto& handle : hook_handles_) handle.remove();
  for (const std::size_t i : reduced_) parameters_[i].tensor.release_grad_buffer();
}

void Reducer::observe(std::shared_ptr<ReducerObserver> observer) {
  TANDEM_CHECK(observer && backward_.expired(),
               "a Reducer accepts an observer only between two backward passes, and not null");
  observer_ = std::move(observer);
}

// --- Buckets ---

void Reducer::make_buckets(BucketLayout layout) {
  // The memory of an old bucket is freed when the last of its gradients has moved to a new bucket.
  buckets_.clear();
  layout_ = std::move(layout);
  for (const auto& indices : layout_) buckets_.push_back(make_bucket(indices, buckets_.size() + 1 == layout_.size()));
  observer_->buckets_made();
}

Reducer::Bucket Reducer::make_bucket(const std::vector<std::size_t>& indices, bool is_last) {
  const DType dtype = parameters_[indices[0]].tensor.dtype();
  std::size_t bytes = 0;
  for (const std::size_t i : indices) bytes += packed_bytes(parameters_[i].tensor.value().bytes());
  const auto elements = static_cast<std::int64_t>(bytes / size_of(dtype));

  Bucket bucket;
  const Device device = parameters_[indices[0]].tensor.device();
  const bool carries_flag = is_last && device.is_cpu();
  bucket.message = group_->allocate({elements + (carries_flag ? 1 : 0)}, dtype, device);
  // The ranks compare names, so they notice if they reach two models in different orders.
  std::string name = "gradient bucket " + std::to_string(buckets_.size());
  if (number_ > 0) name += " of DistributedDataParallel " + std::to_string(number_ + 1);
  bucket.content = {std::move(name), buckets_.size(), is_last, bucket.message.slice(0, 0, elements), {}, {}};
  if (is_last) flag_ = carries_flag ? bucket.message.slice(0, elements, elements + 1) : ops::zeros({1});
  Packing packing(bucket.message.storage());
  for (const std::size_t i : indices) {
    Tensor parameter = parameters_[i].tensor;
    const Array gradient = packing.next_like(parameter.value());
    parameter.set_grad_buffer(gradient);
    bucket.content.gradients.push_back(gradient);
    bucket.content.parameters.push_back(parameters_[i]);
    bucket_of_[i] = buckets_.size();
  }
  return bucket;
}

// Rebuilds the buckets in the order in which the gradients of one rank became ready. All ranks use the order of the
// same rank, so all get the same layout.
void Reducer::rebuild_buckets() {
  rebuilt_ = true;
  if (group_->size() == 1) return;
  // Parameters that this rank did not reach come last.
  for (const auto& bucket : layout_) {
    for (const std::size_t i : bucket) {
      if (state_[i] != State::reached) order_.push_back(i);
    }
  }
  const std::vector<std::int64_t> mine(order_.begin(), order_.end());
  const auto order = Array::from(mine, {static_cast<std::int64_t>(mine.size())});
  group_->broadcast(order, rounds_ ? rounds_->lead() : 0, "order of the gradients")->wait();
  take_order(order.to_vector<std::int64_t>());
}

void Reducer::take_order(std::vector<std::int64_t> order) {
  gradient_order_ = std::move(order);
  auto layout = assign_buckets(parameters_, {gradient_order_.begin(), gradient_order_.end()}, sizes_);
  if (layout != layout_) make_buckets(std::move(layout));
}

void Reducer::set_gradient_order(std::vector<std::int64_t> order) {
  if (order.empty()) {
    used_.assign(used_.size(), 0);
    if (!rebuilt_) return;
    rebuilt_ = false;
    gradient_order_.clear();
    make_buckets(assign_buckets(parameters_, reverse_registration_order(parameters_), sizes_));
    return;
  }
  std::vector<std::int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  TANDEM_CHECK(std::equal(sorted.begin(), sorted.end(), reduced_.begin(), reduced_.end(),
                          [](std::int64_t a, std::size_t b) { return a == static_cast<std::int64_t>(b); }),
               "an order of ", order.size(), " gradients, which are not those of the ", reduced_.size(),
               " parameters that require a gradient");
  rebuilt_ = true;
  take_order(std::move(order));
}

// --- One backward pass ---

void Reducer::begin_pass() {
  started_ = 0;
  state_.assign(state_.size(), State::owed);
  order_.clear();
  untouched_.clear();
  for (auto& bucket : buckets_) {
    bucket.missing = bucket.content.parameters.size();
    bucket.work = nullptr;
  }
  flag_.fill(0);
  observer_->backward_begun();
}

void Reducer::begin_backward() {
  for (const std::size_t i : frozen_) {
    TANDEM_CHECK(!parameters_[i].tensor.requires_grad(), "rank ", group_->rank(), ": parameter ", parameters_[i].name,
                 " requires a gradient now, but did not when DistributedDataParallel was made, so the ranks do not "
                 "average it: make DistributedDataParallel after set_requires_grad(true)");
  }
  begin_pass();
  if (rounds_) rounds_->begin_backward();
  // The callback owns the token. When a backward pass fails, the engine drops its callbacks, the token expires, and the
  // next gradient begins a new pass.
  auto token = std::make_shared<char>();
  backward_ = token;
  after_backward([this, token = std::move(token)] { end_backward(); });
  // The engine already knows which parameters this pass will not reach. Their buckets need not wait for its end.
  if (unused_ != Unused::error) {
    for (const std::size_t i : reduced_) {
      if (!backward_reaches(parameters_[i].tensor)) contribute_nothing(i);
    }
    start_full_buckets();
  }
}

void Reducer::gradient_ready(std::size_t parameter) {
  if (!synchronising_) {
    used_[parameter] = 1;
    return;
  }
  if (backward_.expired()) begin_backward();
  Tensor tensor = parameters_[parameter].tensor;
  // The parameter was used, but no operation computed a gradient for it. The other ranks expect a gradient, so it is
  // zero.
  if (!tensor.grad().defined()) tensor.set_grad(ops::zeros(tensor.shape(), tensor.dtype(), tensor.device()));
  used_[parameter] = 1;
  order_.push_back(parameter);
  state_[parameter] = State::reached;
  --buckets_[bucket_of_[parameter]].missing;
  start_full_buckets();
  observer_->gradient_ready();
}

// The parameter contributes its gradient from before this pass, because gradients accumulate until zero_grad().
void Reducer::contribute_nothing(std::size_t parameter) {
  Tensor tensor = parameters_[parameter].tensor;
  const Array before = tensor.grad();
  if (!used_[parameter] && unused_ == Unused::skip) {
    untouched_.emplace_back(parameter, before.defined() ? before.clone() : Array());
  }
  if (!before.defined()) tensor.set_grad(ops::zeros(tensor.shape(), tensor.dtype(), tensor.device()));
  state_[parameter] = State::absent;
  --buckets_[bucket_of_[parameter]].missing;
}

template <class F>
void Reducer::call_communication_hook(const Bucket& bucket, F call) const {
  try {
    call();
  } catch (const PeerError&) {
    throw;  // another rank failed, not the hook
  } catch (const std::exception& error) {
    const auto& parameters = bucket.content.parameters;
    detail::fail("rank ", group_->rank(), ": the communication hook failed on ", bucket.content.name, " (",
                 parameters.front().name, parameters.size() > 1 ? " to " + parameters.back().name : "",
                 "): ", error.what());
  }
}

void Reducer::start_full_buckets() {
  while (started_ < buckets_.size() && buckets_[started_].missing == 0) {
    Bucket& bucket = buckets_[started_];
    const std::size_t number = started_++;
    observer_->reduction_begun(bucket.content);
    if (communication_hook_) {
      call_communication_hook(bucket, [&] { bucket.work = communication_hook_(bucket.content, *group_); });
    } else {
      if (!rebuilt_ && started_ == buckets_.size() && !rounds_ && warns_if_same_)
        own_gradients_ = bucket.content.buffer.clone();
      bucket.work = group_->all_reduce(bucket.message, ReduceOp::mean, bucket.content.name);
    }
    observer_->reduction_started(number, bucket.work);
  }
}

void Reducer::end_backward() {
  backward_.reset();
  bool is_complete = true;
  for (const std::size_t i : reduced_) {
    if (state_[i] != State::owed) continue;
    contribute_nothing(i);
    is_complete = false;
  }
  // The flag is sent with the last bucket. If a gradient was missing, the last bucket has not been started yet.
  if (!is_complete) flag_.fill(1);
  start_full_buckets();
  finish_pass();
}

void Reducer::finish_pass() {
  observer_->gradients_complete();
  Array used;
  std::shared_ptr<Work> agreement;
  if (unused_ == Unused::skip) {
    const std::vector<std::uint8_t> mine(used_.begin(), used_.end());
    used = Array::from(mine, {static_cast<std::int64_t>(mine.size())});
    agreement = group_->all_reduce(used, ReduceOp::max, "used parameters");
  } else if (unused_ == Unused::error && (communication_hook_ || !buckets_.back().message.device().is_cpu())) {
    // The flag is a separate message here. A hook does not send it, and reading it from a GPU would wait for the whole
    // pass.
    agreement = group_->all_reduce(flag_, ReduceOp::max, "unused parameters");
  }
  wait_for_buckets();
  if (agreement) agreement->wait();
  if (const double factor = rounds_ ? rounds_->end_backward() : 1; factor != 1) {
    for (auto& bucket : buckets_) ops::scale_(bucket.content.buffer, factor);
  }
  used_.assign(used_.size(), 0);
  if (unused_ == Unused::error && flag_.item() != 0) {
    std::vector<std::string> absent;
    for (const std::size_t i : reduced_)
      if (state_[i] == State::absent) absent.push_back(parameters_[i].name);
    fail_for_unused(*group_, absent, reduced_.size());
  }
  for (const auto& [parameter, gradient] : untouched_) {
    if (used.data<std::uint8_t>()[parameter]) continue;
    Tensor tensor = parameters_[parameter].tensor;
    tensor.set_grad(gradient);
  }
  if (!rebuilt_) {
    warn_if_same();
    rebuild_buckets();
  }
  if (after_pass_ && !rounds_) after_pass_();
}

// Warns if all ranks have the same samples, because more ranks are then useless. In that case, each rank's gradients
// equal the mean, except for rounding. The check uses the last bucket, which has the weight of the first layer: its
// gradient depends on the samples for every loss. In contrast, a bias at the end of the network may have the same
// gradient for all samples.
void Reducer::warn_if_same() {
  const Array mine = std::exchange(own_gradients_, {});
  if (!mine.defined() || group_->size() == 1 || group_->rank() != 0) return;
  const auto largest = [](const Array& x) { return ops::reduce({reductions::MaxMagnitude{}}, x).item(); };
  const Array mean = buckets_.back().content.buffer;
  const double size = largest(mine), difference = largest(ops::zip(functors::Sub{}, mine, mean));
  if (size > 0 && difference <= 1e-6 * size)
    std::cerr << "warning: all " << group_->size() << " ranks have the same gradients in the first step, so each of "
              << "them has the same samples. Set .shard = shard_of(*group) in the Loader's options" << std::endl;
}

void Reducer::wait_for_buckets() {
  const Scope scope(Scope::Kind::phase, "wait for gradients");
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    if (communication_hook_ && bucket.work) {
      call_communication_hook(bucket, [&] { bucket.work->wait(); });
    } else if (bucket.work) {
      bucket.work->wait();
    }
    observer_->reduction_waited(b);
  }
  observer_->backward_ended();
}

void Reducer::shadow_backward() {
  begin_pass();
  for (auto& bucket : buckets_) {
    bucket.content.buffer.fill(0);
    bucket.missing = 0;
  }
  used_.assign(used_.size(), 0);
  start_full_buckets();
  finish_pass();
  for (const std::size_t i : reduced_) parameters_[i].tensor.zero_grad();
}

}  // namespace tandem::distributed
