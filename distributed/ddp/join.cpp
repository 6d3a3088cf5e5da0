#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/ddp/join.h>

#include <utility>

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
                 ", rank ", r, " at ", name_of(step), ". Every rank that has data must do the same");
    step_ = step;
    lead_ = r;
    ++active_;
  }
}

void DistributedDataParallel::fail_for_absent(const JoinRounds& rounds) const {
  if (rounds.active() == 0 || rounds.active() == group_->size()) return;
  detail::fail("rank ", rounds.absent_rank(), " has run out of data while ", rounds.active(), " of ", group_->size(),
               " ranks have more: training ends on all ranks, as throw_on_early_termination asks. Give every rank the "
               "same number of batches to train on all data");
}

void DistributedDataParallel::join(const std::function<void()>& body, const JoinOptions& options) {
  JoinRounds rounds(group_, options);
  struct Joining {
    Joining(DistributedDataParallel& ddp, JoinRounds& rounds) : ddp(ddp) {
      ddp.join_ = &rounds;
      if (!rounds.options().throw_on_early_termination) ddp.reducer_->set_join(&rounds);
    }
    ~Joining() {
      ddp.join_ = nullptr;
      ddp.reducer_->set_join(nullptr);
    }
    DistributedDataParallel& ddp;
  } joining(*this, rounds);

  body();
  for (;;) {
    rounds.meet(JoinRounds::Step::none);
    if (rounds.active() == 0) break;
    if (options.throw_on_early_termination) fail_for_absent(rounds);
    if (rounds.step() == JoinRounds::Step::buffers) share_buffers(rounds.lead());
    else reducer_->shadow_backward();
  }
  if (group_->size() == 1 || options.throw_on_early_termination) return;
  share_parameters(rounds.lead());
  share_buffers(rounds.lead());
}

}  // namespace tandem::distributed
