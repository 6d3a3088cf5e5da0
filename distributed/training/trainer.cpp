#include <tandem/autograd/autocast.h>
#include <tandem/core/ops/gather_into.h>
#include <tandem/distributed/training/trainer.h>
#include <tandem/distributed/training/training_job.h>
#include <tandem/optim/graphed_step.h>

#include <optional>
#include <utility>

namespace tandem::distributed {

struct Trainer::Running {
  TrainingJob job;
  // These members are for programs that write their own loop. They last from a batch to its step().
  std::optional<Autocast> autocast{};
  bool waits_for_step = false;
  bool leaves_epoch = false;
};

Trainer::Trainer(const TrainingOptions& options, std::shared_ptr<ProcessGroup> group, nn::Module& model,
                 const std::function<std::unique_ptr<nn::Module>()>& make_replica)
    : running_(new Running{TrainingJob(options, required(std::move(group), "Trainer"), model, make_replica)}) {}
Trainer::~Trainer() { running_->job.say_if_left(); }

void Trainer::fit(data::Loader& loader, const LossOf& loss_of, const Evaluate& evaluate) {
  fit(loader, of_model(loss_of), evaluate);
}

void Trainer::fit(data::Loader& loader, const LossOfModel& loss_of, const Evaluate& evaluate) {
  TrainingJob& job = running_->job;
  if (!job.options().find_lr.empty()) return job.show_lr(loader, loss_of);
  job.check().set_loss(loss_of);
  const Array no_targets = Array::empty({0}, DType::u8);
  // On a GPU, this function is recorded once, and afterwards replayed in one call.
  GraphedStep step(
      job.options().graph_device(),
      [&](const std::vector<Array>& arrays) {
        data::Batch batch{arrays[0], {}, {arrays.begin() + 2, arrays.end()}};
        if (arrays[1].shape() != no_targets.shape()) batch.targets = arrays[1];
        const Autocast autocast(job.options().dtype);
        const Tensor loss = job.loss(batch, loss_of);
        job.update(loss);
        return loss.value();
      },
      [&](const std::string& why) { job.note("note: " + why); });
  job.begin(loader, evaluate);
  while (job.next_epoch()) {
    for (auto next = loader.begin(); next != loader.end();) {
      data::Batch& batch = *next;
      job.begin_batch(batch);
      std::vector<Array> arrays{batch.inputs, batch.targets.defined() ? batch.targets : no_targets};
      arrays.insert(arrays.end(), batch.more.begin(), batch.more.end());
      const Array loss = step(arrays);
      if (!job.count(loss)) break;
      const ops::GatherInto places(step.recorded_inputs());
      ++next;
    }
    job.end_epoch();
  }
  job.finish();
}

// Adapts a loss function that uses the program's own model, not its argument.
Trainer::LossOfModel Trainer::of_model(const LossOf& loss_of) const {
  running_->job.strategy().require_no_replicas();
  return [loss_of](nn::Module&, const data::Batch& batch) { return loss_of(batch); };
}

LrCurve Trainer::find_lr(data::Loader& loader, const LossOf& loss_of, const LrSweep& sweep) {
  return find_lr(loader, of_model(loss_of), sweep);
}
LrCurve Trainer::find_lr(data::Loader& loader, const LossOfModel& loss_of, const LrSweep& sweep) {
  return running_->job.lr_trial(loader, loss_of).run(sweep);
}

Trainer::Batches Trainer::batches(data::Loader& loader, Evaluate evaluate) {
  running_->job.strategy().require_no_replicas();
  if (!running_->job.options().find_lr.empty())
    throw UsageError("--find-lr: " + running_->job.options().program() +
                     " writes its own loop: the option works only with Trainer::fit");
  return {*running_, loader, std::move(evaluate)};
}

Trainer::Batches::Iterator Trainer::Batches::begin() {
  running_.job.begin(loader_, evaluate_);
  return {running_, loader_};
}

void Trainer::Batches::Iterator::find_batch() {
  while (!batch_ && running_.job.next_epoch()) {
    batch_.emplace(loader_.begin());
    if (*batch_ == std::default_sentinel) end_epoch();
  }
  if (!batch_) return running_.job.finish();
  running_.job.begin_batch(**batch_);
  running_.autocast.emplace(running_.job.options().dtype);
  running_.waits_for_step = true;
}

void Trainer::Batches::Iterator::end_epoch() {
  batch_.reset();
  running_.job.end_epoch();
}

Trainer::Batches::Iterator& Trainer::Batches::Iterator::operator++() {
  TANDEM_CHECK(!running_.waits_for_step, "Trainer: step(loss) was not called for this batch: call it for each");
  if (running_.leaves_epoch) end_epoch();
  else ++*batch_;
  find_batch();
  return *this;
}

void Trainer::step(const Tensor& loss) {
  TANDEM_CHECK(running_->waits_for_step, "Trainer::step: it must be called once for each batch of batches()");
  running_->waits_for_step = false;
  running_->autocast.reset();
  running_->job.update(loss);
  running_->leaves_epoch = !running_->job.count(loss.value());
}

void Trainer::use(optim::Optimizer& optimizer) { running_->job.use(optimizer, {}, Update::Counts::steps); }
void Trainer::use(optim::Optimizer& optimizer, MakeSchedule schedule) {
  running_->job.use(optimizer, std::move(schedule), Update::Counts::steps);
}
void Trainer::use_by_epoch(optim::Optimizer& optimizer, MakeSchedule schedule) {
  running_->job.use(optimizer, std::move(schedule), Update::Counts::epochs);
}
void Trainer::clip_norm(double max_norm) { running_->job.updates().clip_norm(max_norm); }
void Trainer::clip_value(double max_value) { running_->job.updates().clip_value(max_value); }
void Trainer::keep(const std::string& name, std::function<std::vector<NamedArray>()> state_dict,
                   std::function<void(const std::vector<NamedArray>&)> load_state_dict) {
  running_->job.state().keep({name, std::move(state_dict), std::move(load_state_dict)});
}
void Trainer::leave_out(std::function<bool(const data::Batch&)> is_empty) {
  running_->job.check().leave_out(std::move(is_empty));
}
void Trainer::after_step(std::function<void()> call) { running_->job.after_step(std::move(call)); }
std::int64_t Trainer::epoch() const { return running_->job.position().epoch; }
std::int64_t Trainer::steps() const { return running_->job.position().step; }
bool Trainer::is_trying_out() const { return running_->job.is_trying_out(); }
DistributedDataParallel& Trainer::ddp() { return running_->job.ddp(); }
void Trainer::note(const std::string& line) { running_->job.note(line); }
void Trainer::progress(const std::string& what, std::int64_t done, std::int64_t all) {
  running_->job.progress(what, done, all);
}
EventFile* Trainer::events() { return running_->job.events(); }

}  // namespace tandem::distributed
