#include <tandem/autograd/functions.h>
#include <tandem/core/io/arrays_file.h>
#include <tandem/core/io/atomic_file.h>
#include <tandem/core/io/file_system.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/job/together.h>
#include <tandem/distributed/system/signal_name.h>
#include <tandem/distributed/training/introduction.h>
#include <tandem/distributed/training/options/given_options.h>
#include <tandem/distributed/training/same_samples.h>
#include <tandem/distributed/training/training_job.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <utility>

namespace tandem::distributed {
namespace {

// Returns why a job that resumes from a checkpoint has nothing left to do, and what would change that. Returns an empty
// string if the job has work left.
std::string nothing_left(const TrainingOptions& options, const TrainingState& saved, const Evaluation& evaluation) {
  if (options.epochs == 0) return "";
  if (saved.epoch >= options.epochs) return fmt::format("of {}: a larger --epochs", counted(options.epochs, "epoch"));
  if (saved.step >= options.max_steps)
    return fmt::format("of {}: a larger --max-steps", counted(options.max_steps, "step"));
  if (!evaluation.is_out_of_patience()) return "";
  return fmt::format("after {} without a better {}: a larger --patience",
                     counted(evaluation.ranking().since(), "evaluation"), evaluation.ranking().wanted());
}

}  // namespace

TrainingJob::TrainingJob(const TrainingOptions& options, std::shared_ptr<ProcessGroup> group, nn::Module& model,
                         const DataParallel::Factory& make_replica)
    : options_(options),
      group_(std::move(group)),
      strategy_(options, group_, model, make_replica),
      log_(options, group_->rank() == 0),
      profile_(options, group_->rank(), group_->size(), [this](const std::string& line) { log_.note(line); }),
      // Without --checkpoint, there is nothing to save, so a signal ends the process at once.
      stop_(*group_, {.takes_signals = !options.checkpoint.empty() && options.epochs > 0,
                      .max_time = options.max_time,
                      .device = options.device()}) {
  if (strategy_.server()) update_.through(*strategy_.server());
  if (strategy_.zero()) update_.through(*strategy_.zero());
  if (strategy_.diloco()) job_.add(*strategy_.diloco());
}

void TrainingJob::use(optim::Optimizer& optimizer, Update::MakeSchedule schedule, Update::Counts counts) {
  strategy_.use(optimizer);
  job_.add(optimizer);
  update_.use(optimizer, std::move(schedule), counts);
}

const Position& TrainingJob::position() const {
  TANDEM_CHECK(progress_, "Trainer: the training has not begun");
  return progress_->position();
}

bool TrainingJob::ends_early() const {
  return progress_->position().step >= options_.max_steps || time_is_up_ || evaluation_.is_out_of_patience();
}

void TrainingJob::begin(data::Loader& loader, const Evaluate& evaluate) {
  TANDEM_CHECK(!progress_, "Trainer: it has trained already: a second training needs its own Trainer");
  TANDEM_CHECK(loader.size() > 0 || options_.epochs == 0, "Trainer: the loader has no batch: ", loader.dataset().size(),
               " samples in the data set, and batches of ", loader.batch_size(),
               "; make the batches smaller, or set drop_last to false");
  progress_.emplace(loader, Division{group_->size(), loader.batch_size(), options_.accumulate}, options_.epochs);
  loader_ = &loader;
  evaluation_.set(evaluate);
  if (loader.dataset().size() == 1) ddp().expect_same_samples();
  check_same_on_all_ranks(options_.given(), *group_);
  check_same_data(loader);
  for (const auto& line :
       introduction(options_, *group_, ddp().model(), loader, progress_->steps_per_epoch(), update_.lrs()))
    log_.note(line);
  if (const auto text = strategy_.text(); !text.empty()) log_.note(text);
  run_first(*group_, [this] { open_outputs(); });
  for (const auto& line : std::exchange(notes_, {})) log_.note(line);
  if (!ddp().model().is_training())
    log_.note(
        "WARNING: the model is in evaluation mode, and so are its batch norm and dropout; call model.train() "
        "before fit() unless you want that");
  if (options_.resume) resume();
  update_.begin(*progress_, options_.epochs);
  if (!is_over() && !options_.fast_dev_run) evaluation_.try_out(*progress_);
}

// Ranks with shards divide one data set. A rank that visits all of its samples may have its own data set.
void TrainingJob::check_same_data(const data::Loader& loader) {
  if (group_->sum(loader.is_shard(), "ranks that have a shard") > 0)
    check_same_samples(*group_, "training " + options_.samples_name, loader.dataset());
}

bool TrainingJob::next_epoch() {
  if (is_over()) return false;
  const auto& at = progress_->position();
  // A resumed epoch begins with the generator's state from its first start, so the loader draws the same order.
  epoch_generator_ = default_generator().state();
  loader_->epoch(options_.overfit_batches > 0 ? 0 : at.epoch);
  const std::string generator = at.batch + at.before > 0 ? std::exchange(resumed_generator_, {}) : "";
  loader_->skip(at.batch, generator);
  check_.begin_epoch(*loader_, generator);
  losses_.begin_epoch(total_before_, options_.device());
  log_.begin_epoch(begin_ = at.batch);
  return true;
}

void TrainingJob::begin_batch(data::Batch& batch) {
  if (strategy_.diloco()) strategy_.diloco()->use_own();
  check_.begin_batch(batch);
  batch = batch.to(options_.device());
  const bool is_first = progress_->position().batch == begin_;
  if (progress_->begins_step()) {
    check_.begin_step(*progress_, is_first ? nullptr : &generator_);
    profile_.begin_step(progress_->position().step + 1);
  }
  if (is_first) generator_ = default_generator();
  ddp().forward([] {});  // prepares the pass; the program calls the model itself
}

Tensor TrainingJob::loss(const data::Batch& batch, const LossOf& loss_of) {
  if (!strategy_.has_replicas()) return strategy_.loss(batch, loss_of);
  return strategy_.loss(batch, [&](nn::Module& replica, const data::Batch& part) {
    const Tensor loss = loss_of(replica, part);
    // The losses of all parts are combined, so a part without a loss must not be NaN.
    return check_.is_empty(part) ? where(ops::zeros(loss.shape(), DType::boolean, loss.device()), loss, 0) : loss;
  });
}

bool TrainingJob::count(const Array& loss) {
  const Array value = loss.reshape({}).to(DType::f32);
  losses_.add(value, *progress_, check_.has_loss());
  const bool complete = progress_->completes_step();
  progress_->count();
  generator_ = default_generator();
  // A GPU runs behind the host. The host waits for it here, at the end, so the time of the epoch includes the GPU's
  // work.
  const auto& at = progress_->position();
  if (progress_->epoch_is_complete() || (complete && at.step >= options_.max_steps)) synchronize(value.device());
  log_.end_batch();
  if (log_.wants_progress()) log_.progress(*progress_, value.item());
  if (complete) end_step();
  return !progress_->epoch_is_complete() && !ends_early();
}

void TrainingJob::end_epoch() {
  const double total = losses_.total(*group_);
  check_.look();
  // If the program itself has left the epoch early, the epoch is over. If a limit has ended it, a later run continues
  // in the middle of the epoch.
  const bool complete = progress_->epoch_is_complete() || !ends_early();
  const std::int64_t epochs = progress_->position().epoch + complete;
  const bool is_last = ends_early() || epochs >= options_.epochs;
  std::vector<Metric> metrics;
  if (is_last || epochs % options_.eval_every == 0) metrics = evaluate();
  log_.epoch(*progress_, total, metrics);
  if (const auto steps = update_.take_left_out(); steps > 0 && !std::isfinite(total))
    log_.note(
        fmt::format("note: the total loss is not finite, because the loss of a batch is not; {} without finite "
                    "gradients did not change the weights",
                    counted(steps, "step")));
  // The sums over a part of an epoch are smaller than the sums over a whole epoch, and would wrongly be the best.
  auto figures = complete ? log_.epoch_figures(*progress_, total) : std::vector<Metric>();
  figures.insert(figures.end(), metrics.begin(), metrics.end());
  if (complete) {
    progress_->end_epoch();
    total_before_ = 0;
    losses_.begin_epoch(0, losses_.of_epoch().device());
    epoch_generator_ = default_generator().state();
    update_.follow_schedules(*progress_);
  }
  const bool is_kept = consider(figures);
  const bool is_due = (complete && epochs % options_.save_every == 0) || step_is_multiple_of(options_.save_every_steps);
  if (!options_.checkpoint.empty() && (is_over() || is_due || is_kept)) save();
}

void TrainingJob::use_mean() {
  if (strategy_.diloco()) strategy_.diloco()->use_mean();
}

std::vector<Metric> TrainingJob::evaluate() {
  if (evaluation_.is_there()) use_mean();
  return evaluation_.run();
}

bool TrainingJob::consider(const std::vector<Metric>& figures) {
  if (evaluation_.ranking().is_on()) {
    log_.aside([this] { finish_save(); });
    folder_.check_kept(evaluation_.ranking());
  }
  return evaluation_.consider(figures, *progress_);
}

void TrainingJob::finish() {
  is_finished_ = true;
  finish_save();
  if (time_is_up_)
    log_.note(fmt::format("--max-time was reached after {} in all{}", counted(progress_->position().step, "step"),
                          options_.checkpoint.empty() ? "" : ": --resume continues from there"));
  if (options_.epochs == 0 && evaluation_.is_there()) log_.evaluation(*progress_, evaluate());
  evaluation_.finish();
  profile_.finish();
  if (const auto report = strategy_.report(); !report.empty()) log_.note(report);
  use_mean();
  run_together(*group_, [this] {
    if (group_->rank() == 0 && !options_.save.empty()) {
      job_.require_finite();
      create_folder(folder_of(options_.save), "for the model");  // it may have been renamed or removed meanwhile
      save_arrays(options_.save, ddp().model().state_dict(), {{"program", options_.program()}});
      log_.note("saved the model to " + options_.save);
    }
    log_.require_written();
    profile_.require_written();
  });
}

LrTrial TrainingJob::lr_trial(data::Loader& loader, const LossOf& loss_of) {
  TANDEM_CHECK(!progress_, "Trainer::find_lr: call it before the training");
  check_same_data(loader);
  return {options_, *group_, ddp(),  update_,
          check_,   job_,    loader, [this, &loss_of](const data::Batch& batch) {
            return loss(batch, loss_of); }};
}

void TrainingJob::show_lr(data::Loader& loader, const LossOf& loss_of) {
  for (const auto& line : std::exchange(notes_, {})) log_.note(line);
  lr_trial(loader, loss_of).show(log_);
}

void TrainingJob::say_if_left() {
  if (progress_ && !is_finished_ && std::uncaught_exceptions() == 0)
    log_.note("note: the loop over the batches was left early: there is no final model and no last checkpoint");
}

void TrainingJob::note(const std::string& line) {
  if (progress_) log_.note(line);
  else notes_.push_back(line);
}

// Checks before the training, not after hours of it, whether all output files can be written.
void TrainingJob::open_outputs() {
  if (group_->rank() == 0) log_.open();
  folder_.open();  // before the model's file, which may be in that folder
  if (group_->rank() != 0 || options_.save.empty()) return;
  const AtomicFile probe(options_.save);
}

void TrainingJob::resume() {
  auto saved = folder_.go_on(describe());
  if (!saved) return;
  const Division before{saved->world_size, saved->batch_size, saved->accumulate};
  progress_->go_on({saved->epoch, saved->step, saved->position, saved->before}, before);
  const bool is_mid_epoch = saved->position + saved->before > 0;
  if (is_mid_epoch && before == progress_->division()) total_before_ = saved->losses.at(group_->rank());
  else if (is_mid_epoch && group_->rank() == 0)
    for (const float loss : saved->losses) total_before_ += loss;
  auto& ranking = evaluation_.ranking();
  ranking.go_on(saved->best_of, saved->best, saved->kept_steps);
  folder_.check_kept(ranking);
  ranking.set_state(group_->broadcast_string(ranking.state_text(), 0, "the best evaluations"));
  if (const auto steps = ranking.others(); !steps.empty())
    log_.note(fmt::format("note: checkpoints that an earlier --keep-best chose are kept: those after {} steps",
                          fmt::join(steps, ", ")));
  epoch_generator_ = saved->generator;
  resumed_generator_ = saved->generator_now;
  if (group_->rank() == 0) log_.go_on_from(progress_->position());
  const std::string why = nothing_left(options_, *saved, evaluation_);
  if (!why.empty()) log_.note("nothing left to do " + why + " continues");
}

void TrainingJob::end_step() {
  check_.end_step(losses_.of_epoch());
  profile_.end_step(progress_->position().step);
  const bool is_shared = !strategy_.diloco() || strategy_.diloco()->step();
  if (is_shared) {
    for (const auto& call : after_step_) {
      call();
      generator_ = default_generator();
    }
  }
  if (step_is_multiple_of(options_.log_every)) log_step();
  update_.follow_schedules(*progress_);
  // At the end of an epoch or of the training, end_epoch() saves the checkpoint after the evaluation. A job that is
  // killed in between repeats both.
  const bool is_mid_epoch = !progress_->epoch_is_complete() && progress_->position().step < options_.max_steps;
  bool is_due = is_mid_epoch && step_is_multiple_of(options_.save_every_steps);
  if (is_mid_epoch && step_is_multiple_of(options_.eval_every_steps)) {
    const auto metrics = evaluate();
    log_.evaluation(*progress_, metrics);
    is_due |= consider(metrics) && !options_.checkpoint.empty();
  }
  if (is_due) log_.aside([this] { save(); });
  const auto reason = stop_.poll(folder_.is_writing());
  if (reason.is_written) finish_save();
  if (reason.signal) stop_for(reason.signal, is_due);
  time_is_up_ = reason.time_is_up;
}

void TrainingJob::log_step() {
  const double loss = losses_.step_mean(*group_);  // waits for the GPU, so the line's time includes all its work
  check_.look();
  log_.step(*progress_, loss, update_.lr());
}

void TrainingJob::stop_for(int signal, bool is_saved) {
  if (!is_saved) save();
  finish_save();
  log_.note(fmt::format("stopped by {} after {} in all: --resume continues from there", signal_name(signal),
                        counted(progress_->position().step, "step")));
  throw StoppedBySignal(signal);
}

TrainingState TrainingJob::describe() const {
  const auto& at = progress_->position();
  TrainingState state;
  state.program = options_.program();
  state.epoch = at.epoch;
  state.step = at.step;
  state.position = at.batch;
  state.before = at.before;
  state.seed = options_.seed;
  state.world_size = group_->size();
  state.batch_size = loader_->batch_size();
  state.accumulate = options_.accumulate;
  state.dataset_size = loader_->dataset().size();
  state.options = text_of(options_.given());
  const auto& ranking = evaluation_.ranking();
  state.best_of = ranking.wanted();
  state.best = ranking.state_text();
  state.kept_steps = ranking.kept_steps();
  state.generator = epoch_generator_;
  state.generator_now = generator_.state();
  return state;
}

void TrainingJob::save() {
  check_.look();
  use_mean();
  ddp().check_same_weights();
  finish_save();
  stop_.saving(fmt::format("of step {}", progress_->position().step));
  folder_.save(describe(), losses_.of_epoch(), evaluation_.ranking().best_step());
}

void TrainingJob::finish_save() {
  if (folder_.finish()) stop_.saved();
}

}  // namespace tandem::distributed
