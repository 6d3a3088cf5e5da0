#include <tandem/distributed/ddp/join.h>
#include <tandem/distributed/ddp/share_optimizer.h>

#include <string>
#include <utility>
#include <vector>

namespace tandem::distributed {
namespace {

const char* name_of(JoinRounds::Step step) {
  switch (step) {
    case JoinRounds::Step::forward: return "forward";
    case JoinRounds::Step::buffers: return "sharing the buffers";
    case JoinRounds::Step::backward: return "backward";
    default: return "nothing";
  }
}

}  // namespace

JoinRounds::JoinRounds(std::shared_ptr<ProcessGroup> group, const JoinOptions& options)
    : group_(required(std::move(group), "join")),
      options_(options),
      steps_(Array::empty({group_->size()}, DType::i64)) {}

void JoinRounds::announce(Step step) {
  steps_.fill(0);
  steps_.data<std::int64_t>()[group_->rank()] = static_cast<std::int64_t>(step);
  work_ = group_->all_reduce(steps_, ReduceOp::sum, "round of join");
}

void JoinRounds::finish() {
  if (!work_) return;
  std::exchange(work_, nullptr)->wait();
  step_ = Step::none;
  active_ = 0;
  absent_ = -1;
  for (int r = 0; r < group_->size(); ++r) {
    const auto step = static_cast<Step>(steps_.data<std::int64_t>()[r]);
    if (step == Step::none) {
      if (absent_ < 0) absent_ = r;
      continue;
    }
    TANDEM_CHECK(active_ == 0 || step == step_, "the ranks are out of step: rank ", lead_, " is at ", name_of(step_),
                 ", rank ", r, " at ", name_of(step), ". All ranks that have data must take the same steps");
    step_ = step;
    lead_ = r;
    ++active_;
  }
}

void JoinRounds::fail_for_absent() const {
  if (active_ == 0 || active_ == group_->size()) return;
  detail::fail(
      "rank ", absent_, " has run out of data while ", active_, " of ", group_->size(),
      " ranks have more: training ends on all ranks, because throw_on_early_termination is set. Give each rank "
      "the same number of batches to train on all data");
}

void JoinRounds::begin_forward() {
  if (!options_.throw_on_early_termination) return;
  agree_on(Step::forward);
  fail_for_absent();
}

int JoinRounds::share_buffers() {
  if (options_.throw_on_early_termination) return 0;
  agree_on(Step::buffers);
  return lead_;
}

double JoinRounds::end_backward() {
  finish();
  return options_.divide_by_initial_world_size ? 1 : static_cast<double>(group_->size()) / active_;
}

void join(DistributedDataParallel& ddp, const std::function<void()>& body, const JoinOptions& options) {
  JoinRounds rounds(ddp.group(), options);
  struct Joining {
    Joining(DistributedDataParallel& ddp, JoinRounds& rounds, bool on_reducer) : ddp(ddp) {
      ddp.set_rounds(&rounds);
      if (on_reducer) ddp.reducer().set_rounds(&rounds);
    }
    ~Joining() {
      ddp.set_rounds(nullptr);
      ddp.reducer().set_rounds(nullptr);
    }
    DistributedDataParallel& ddp;
  } joining(ddp, rounds, !options.throw_on_early_termination);

  body();
  for (;;) {
    rounds.agree_on(JoinRounds::Step::none);
    if (rounds.active() == 0) break;
    if (options.throw_on_early_termination) rounds.fail_for_absent();
    if (rounds.step() == JoinRounds::Step::buffers) ddp.share_buffers(rounds.lead());
    else ddp.reducer().shadow_backward();
  }
  if (ddp.group()->size() == 1 || options.throw_on_early_termination) return;
  ddp.share_parameters(rounds.lead());
  ddp.share_buffers(rounds.lead());
  for (optim::Optimizer* optimizer : options.optimizers)
    share_optimizer(*optimizer, ddp.model().parameters().front().tensor.device(), *ddp.group(), rounds.lead());
}

}  // namespace tandem::distributed
