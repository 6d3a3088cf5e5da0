#include <tandem/core/array/text_array.h>
#include <tandem/core/io/arrays_file.h>
#include <tandem/core/io/atomic_file.h>
#include <tandem/core/io/file_system.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/job/together.h>
#include <tandem/distributed/system/signal_name.h>
#include <tandem/distributed/training/checkpoint.h>
#include <tandem/distributed/training/checkpoint_lock.h>
#include <tandem/distributed/training/console.h>
#include <tandem/distributed/training/metrics_file.h>
#include <tandem/distributed/training/stop_request.h>
#include <tandem/distributed/training/training_run.h>

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>

namespace tandem::distributed {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string minutes_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

// "3.4 images/s", "120 images/s".
std::string rate_text(double images_per_second) {
  return fmt::format("{:.{}f} images/s", images_per_second, images_per_second < 9.95 ? 1 : 0);
}

std::string count(std::int64_t n, const std::string& thing, const std::string& plural = "s") {
  return fmt::format("{} {}{}", n, thing, n == 1 ? "" : plural);
}

std::string shown(Device device) {
  std::ostringstream text;
  text << device;
  return text.str();
}

// In a checkpoint, the arrays of the GradScaler are among those of the optimizer, under names with this prefix.
const std::string scaling_prefix = "grad_scaler/";

// The arrays of a StatefulHook have names with this prefix.
const std::string hook_prefix = "hook/";

// Moves the arrays of the GradScaler out of `optimizer`.
std::vector<NamedArray> take_scaling(std::vector<NamedArray>& optimizer) {
  std::vector<NamedArray> scaling;
  std::erase_if(optimizer, [&](const NamedArray& entry) {
    const bool taken = entry.name.starts_with(scaling_prefix);
    if (taken) scaling.push_back({entry.name.substr(scaling_prefix.size()), entry.array});
    return taken;
  });
  return scaling;
}

}  // namespace

class TrainingRun::Implementation {
 public:
  Implementation(const TrainingOptions& options, std::shared_ptr<ProcessGroup> group, DistributedDataParallel& ddp,
                 optim::Optimizer& optimizer, data::Loader& loader, optim::GradScaler* scaler)
      : options_(options),
        group_(std::move(group)),
        ddp_(ddp),
        model_(ddp.model()),
        optimizer_(optimizer),
        loader_(loader),
        scaler_(scaler),
        console_(group_->rank() == 0 && !options.quiet),
        // Without a checkpoint there is nothing to do before the end, so a signal ends the process at once.
        stop_(*group_, {.takes_signals = !options.checkpoint.empty() && options.epochs > 0,
                        .max_time = options.max_time,
                        .device = options.device()}) {
    console_.note(fmt::format("{}: {} ({}), {}, {}, {} and {} each, batch {}, {} an epoch", options.program(),
                              count(group_->size(), "process", "es"), group_->backend(), shown(options.device()),
                              name_of(options.dtype), count(options.threads, "thread"),
                              count(options.workers, "loader worker"), options.batch_size,
                              count(loader.size(), "step")));
    run_together(*group_, [this] { open_outputs(); });
    if (options.resume) resume();
  }

  bool next_epoch() {
    if (is_over()) return false;
    epoch_ = state_.epoch;
    // A resumed epoch begins with the generator's state from its first start, so that the loader draws the same order.
    state_.generator = default_generator().state();
    loader_.skip(state_.position, state_.position > 0 ? state_.generator_now : "");
    total_loss_ = ops::scalar(total_before_, DType::f32, options_.device());
    epoch_start_ = line_start_ = Clock::now();
    epoch_begin_ = line_begin_ = state_.position;
    epoch_seconds_ = 0;
    return true;
  }

  int parts() const {
    const std::int64_t begin = state_.position - state_.position % options_.accumulate;
    return static_cast<int>(std::min(options_.accumulate, loader_.size() - begin));
  }
  double weight() const {
    const std::int64_t begin = state_.position - state_.position % options_.accumulate;
    return static_cast<double>(samples_in(state_.position, 1)) / static_cast<double>(samples_in(begin, parts()));
  }
  bool begins_step() const { return state_.position % options_.accumulate == 0; }
  bool completes_step() const { return state_.position % options_.accumulate == parts() - 1; }

  bool step(const Tensor& loss) {
    const Array value = loss.value().reshape({}).to(DType::f32);
    if (total_loss_.device() != loss.device()) total_loss_ = total_loss_.to(loss.device());
    ops::add_(total_loss_, value);
    if (options_.log_every > 0) {
      Array part = value.clone();
      if (parts() > 1) ops::scale_(part, weight());
      if (begins_step()) step_loss_ = part;
      else ops::add_(step_loss_, part);
    }
    const bool complete = completes_step();
    ++state_.position;
    generator_ = default_generator();
    // A GPU runs behind the host. The host waits for it here, at the end, so that epoch_seconds_ counts its work.
    const bool is_last = epoch_is_complete() || (complete && state_.step + 1 >= options_.max_steps);
    if (is_last) synchronize(loss.device());
    epoch_seconds_ = seconds_since(epoch_start_);
    if (console_.wants_progress()) show_progress(loss);
    if (!complete) return true;
    ++state_.step;
    if (options_.log_every > 0 && state_.step % options_.log_every == 0) write_step();
    const bool is_due = options_.save_every_steps > 0 && state_.step % options_.save_every_steps == 0;
    if (is_due && !epoch_is_complete()) save();
    const auto reason = stop_.poll();
    if (reason.signal) stop_for(reason.signal, is_due && !epoch_is_complete());
    time_is_up_ = reason.time_is_up;
    return !ends_early();
  }

  void end_epoch(const std::vector<Metric>& metrics) {
    Array total = total_loss_.clone();
    group_->reduce(total, 0, ReduceOp::sum, "total loss")->wait();
    const double rate = images_since(epoch_begin_) / std::max(epoch_seconds_, 1e-9);
    const std::string figures = shown(metrics);
    console_.line(fmt::format("Total loss: {}", total.item()));
    const std::string part =
        epoch_is_complete() ? "" : fmt::format(" up to batch {} of {}", state_.position, loader_.size());
    console_.line(fmt::format("Epoch {}/{}{}: {}{}{}, {:.2f} s", epoch_ + 1, options_.epochs, part, figures,
                              figures.empty() ? "" : ", ", rate_text(rate), epoch_seconds_));
    if (!std::isfinite(total.item()))
      console_.note("warning: the total loss is not a finite number: the training has diverged");
    const std::vector<MetricsFile::Number> line = {{"epoch", epoch_},
                                                   {"total_loss", total.item()},
                                                   {"images_per_second", rate},
                                                   {"epoch_seconds", epoch_seconds_},
                                                   {"world_size", std::int64_t{group_->size()}},
                                                   {"batch_size", options_.batch_size}};

    // When the program itself has left the epoch early, the epoch is over. When a limit has ended it, a later run goes
    // on in its middle.
    const bool complete = epoch_is_complete() || !ends_early();
    if (complete) {
      ++state_.epoch;
      state_.position = 0;
      total_before_ = 0;
      total_loss_ = ops::scalar(0, DType::f32, total_loss_.device());
      state_.generator = default_generator().state();
    }
    const bool is_due = (complete && state_.epoch % options_.save_every == 0) ||
                        (options_.save_every_steps > 0 && state_.step % options_.save_every_steps == 0);
    const bool is_last = is_over();
    if (!options_.checkpoint.empty() && (is_last || is_due)) save();
    metrics_.write("epoch", line, metrics);
    std::vector<Metric> figures_of_epoch = {{"total_loss", total.item()}, {"images_per_second", rate}};
    figures_of_epoch.insert(figures_of_epoch.end(), metrics.begin(), metrics.end());
    log("epoch/", figures_of_epoch);
  }

  void show(const std::vector<Metric>& metrics) {
    console_.line(shown(metrics));
    metrics_.write("evaluation", {{"epoch", state_.epoch}, {"step", state_.step}}, metrics);
    log("evaluation/", metrics);
  }

  void note(const std::string& line) { console_.note(line); }

  void finish() {
    run_together(*group_, [this] {
      if (group_->rank() != 0 || options_.save.empty()) return;
      save_arrays(options_.save, model_.state_dict(), {{"program", options_.program()}});
      console_.note("saved the model to " + options_.save);
    });
  }

  std::int64_t epoch() const { return epoch_; }
  std::int64_t steps() const { return state_.step; }

  EventFile* events() { return events_.get(); }

 private:
  // Whether a limit other than the number of epochs ends the training.
  bool ends_early() const { return state_.step >= options_.max_steps || time_is_up_; }
  bool is_over() const { return state_.epoch >= options_.epochs || ends_early(); }

  // After an optimizer step.
  [[noreturn]] void stop_for(int signal, bool is_saved) {
    if (!is_saved) save();
    console_.note(fmt::format("stopped by {} after {}: --resume goes on from there", signal_name(signal),
                              count(state_.step, "step")));
    throw StoppedBySignal(signal);
  }

  bool epoch_is_complete() const { return state_.position == loader_.size(); }

  // The samples of this rank in so many batches of an epoch. The last batch may be a short one.
  std::int64_t samples_in(std::int64_t begin, std::int64_t batches) const {
    const std::int64_t first = begin * options_.batch_size;
    return std::min(batches * options_.batch_size, loader_.samples() - first);
  }

  // The images that all ranks have trained on since batch `begin` of this epoch.
  double images_since(std::int64_t begin) const {
    return static_cast<double>(samples_in(begin, state_.position - begin) * group_->size());
  }

  // Finds out before the training, not after hours of it, whether all output files can be written.
  void open_outputs() {
    if (group_->rank() != 0) return;
    metrics_.open(options_.metrics);
    if (!options_.log_dir.empty()) events_ = std::make_unique<EventFile>(options_.log_dir);
    // The model's file may be meant for the folder of the checkpoints, so that folder comes first.
    if (!options_.checkpoint.empty()) create_folder(options_.checkpoint, "for checkpoints");
    if (!options_.save.empty()) {
      const AtomicFile probe(options_.save);
    }
    if (!options_.checkpoint.empty()) {
      const AtomicFile probe(std::filesystem::path(options_.checkpoint) / "checkpoint.safetensors");
      // A program that only evaluates writes no checkpoint, so it may look at those of a running job.
      if (options_.epochs > 0) checkpoint_lock_.emplace(options_.checkpoint);
      TANDEM_CHECK(options_.resume || !has_checkpoints(options_.checkpoint), "the folder ", options_.checkpoint,
                   " holds the checkpoints of an earlier run: give --resume to go on from them, or another "
                   "--checkpoint folder to start afresh");
    }
  }

  void resume() {
    const auto find = [this]() -> std::string {
      if (group_->rank() != 0) return "";
      const auto path = find_checkpoint(options_.checkpoint, options_.program(),
                                        [this](const std::string& line) { console_.note(line); });
      if (!path) return "";
      proven_checkpoints_.insert(*path);
      return path->string();
    };
    const auto found = group_->all_gather_strings(run_together(*group_, find), "checkpoint")[0];
    if (found.empty()) return console_.note("no checkpoint in " + options_.checkpoint + ": starting afresh");
    run_together(*group_, [&] {
      restore(found);
      if (group_->rank() == 0) metrics_.cut_back(state_.epoch, state_.step);
    });
    console_.note(fmt::format("resumed from {}: {} and {} done", found, count(state_.epoch, "epoch"),
                              count(state_.step, "step")));
    if (options_.epochs == 0) return;
    if (state_.epoch >= options_.epochs)
      console_.note(
          fmt::format("nothing left to do of {}: a larger --epochs goes on", count(options_.epochs, "epoch")));
    else if (state_.step >= options_.max_steps)
      console_.note(
          fmt::format("nothing left to do of {}: a larger --max-steps goes on", count(options_.max_steps, "step")));
  }

  void restore(const std::string& path) {
    auto saved = read_checkpoint(path, group_->rank());
    check_same("--seed", saved.position, saved.seed, options_.seed);
    check_same("--batch-size", saved.position, saved.batch_size, options_.batch_size);
    if (saved.accumulate > 0) check_same("--accumulate", saved.position, saved.accumulate, options_.accumulate);
    check_same("number of processes", saved.position, saved.world_size, static_cast<std::int64_t>(group_->size()));
    if (saved.world_size == group_->size())
      check_same("number of samples a process and epoch", saved.position, saved.samples, loader_.samples());
    try {
      model_.load_state_dict(saved.model);
      const auto scaling = take_scaling(saved.optimizer);
      optimizer_.load_state_dict(saved.optimizer);
      if (scaler_) scaler_->load_state_dict(scaling);
      restore_ranks(saved);
    } catch (const Error& error) {
      detail::fail("the checkpoint ", path, " does not fit this program: ", error.what());
    }
    if (saved.position > 0) total_before_ = saved.losses.at(group_->rank());
    saved.model.clear();
    saved.optimizer.clear();
    saved.ddp.clear();
    saved.of_rank.clear();
    state_ = std::move(saved);
  }

  // What the next steps depend on beside model and optimizer. It is bound to the ranks that wrote it.
  void restore_ranks(TrainingState& saved) {
    std::vector<NamedArray> hook;
    for (const auto& [name, array] : saved.of_rank)
      if (name.starts_with(hook_prefix)) hook.push_back({name.substr(hook_prefix.size()), array});
    if (saved.world_size != group_->size()) {
      std::string left_out;
      const auto leave_out = [&](const std::string& what) { left_out += (left_out.empty() ? "" : ", ") + what; };
      if (!saved.ddp.empty()) leave_out("the order of the gradients in the buckets");
      if (!hook.empty()) leave_out("what the communication hook keeps");
      if (saved.has_own_random_numbers) leave_out("the random numbers of each rank's own, which begin anew");
      else default_generator().set_state(saved.generator);
      if (!left_out.empty())
        console_.note(
            fmt::format("note: left out, as it is for {}: {}", count(saved.world_size, "process", "es"), left_out));
      return;
    }
    try {
      ddp_.load_state_dict(saved.ddp);
    } catch (const Error& error) {
      console_.note("note: the order of the gradients in the checkpoint is left out: " + std::string(error.what()));
    }
    auto* const stateful = ddp_.communication_hook().stateful();
    if (!hook.empty() && !stateful)
      console_.note("note: left out, as this run has no such hook: what the communication hook keeps");
    if (!hook.empty() && stateful) stateful->load_state_dict(hook);
    for (const auto& [name, array] : saved.of_rank) {
      if (name == "generator") saved.generator = text_of(array);
      if (name == "generator_now") saved.generator_now = text_of(array);
    }
    default_generator().set_state(saved.generator);
  }

  // What this rank alone has.
  std::vector<NamedArray> state_of_rank() {
    std::vector<NamedArray> state;
    // Most programs draw the same numbers on all ranks. Their state is in the metadata.
    const std::string mine = state_.generator + '\n' + state_.generator_now;
    if (group_->broadcast_string(mine, 0, "random numbers of rank 0") != mine) {
      state.push_back({"generator", text_array(state_.generator)});
      state.push_back({"generator_now", text_array(state_.generator_now)});
    }
    if (const auto* const stateful = ddp_.communication_hook().stateful()) {
      for (auto& [name, array] : stateful->state_dict()) state.push_back({hook_prefix + name, array});
    }
    return state;
  }

  // In the middle of an epoch, an Error when a setting differs from that of the checkpoint, because the batches that
  // are left depend on it. At the end of an epoch only a note.
  template <class T>
  void check_same(const char* what, std::int64_t position, T saved, T given) {
    if (saved == given) return;
    TANDEM_CHECK(position == 0, "the checkpoint was written in the middle of an epoch with a ", what, " of ", saved,
                 ", this is ", given, ": go on with the same, or from the end of an epoch");
    console_.note(
        fmt::format("note: the checkpoint was written with a {} of {}, going on with {}", what, saved, given));
  }

  void save() {
    state_.program = options_.program();
    state_.seed = options_.seed;
    state_.world_size = group_->size();
    state_.batch_size = options_.batch_size;
    state_.accumulate = options_.accumulate;
    state_.samples = loader_.samples();
    state_.generator_now = generator_.state();
    std::vector<Array> losses;
    for (int r = 0; r < group_->size(); ++r) losses.push_back(ops::empty_like(total_loss_));
    group_->all_gather(losses, total_loss_, "losses")->wait();
    RankArrays of_ranks(*group_, state_of_rank());
    group_->rank() == 0 ? write_checkpoint(losses, of_ranks) : of_ranks.give();
    // The others wait here and not in the next collective, because rank 0 may write for longer than the group's
    // timeout.
    run_together(*group_, [] {}, {.what = "the checkpoint"});
  }

  // On rank 0.
  void write_checkpoint(const std::vector<Array>& losses, RankArrays& of_ranks) {
    TrainingState state = state_;
    state.losses.clear();
    for (const auto& loss : losses) state.losses.push_back(static_cast<float>(loss.item()));
    state.model = model_.state_dict();
    state.optimizer = optimizer_.state_dict();
    state.ddp = ddp_.state_dict();
    if (scaler_) {
      for (auto& [name, array] : scaler_->state_dict()) state.optimizer.push_back({scaling_prefix + name, array});
    }
    state.to_write = &of_ranks;
    checkpoint_lock_->check();
    save_checkpoint(options_.checkpoint, state, options_.keep_last, &proven_checkpoints_);
    stop_.saved(fmt::format("of step {}", state.step));
    const double mebibytes = static_cast<double>(of_ranks.bytes()) / (1 << 20);
    if (mebibytes >= 1)
      console_.note(
          fmt::format("saved a checkpoint at step {}: {:.1f} MiB of it are of single ranks, for going on with "
                      "{}",
                      state.step, mebibytes, count(group_->size(), "process", "es")));
  }

  void write_step() {
    Array mean = step_loss_.clone();
    group_->all_reduce(mean, ReduceOp::mean, "step loss")->wait();
    const double value = mean.item();  // waits for the GPU, so the time below counts all its work
    const double rate = images_since(line_begin_) / std::max(seconds_since(line_start_), 1e-9);
    metrics_.write("step", {{"epoch", epoch_},
                            {"step", state_.step},
                            {"loss", value},
                            {"lr", optimizer_.lr()},
                            {"images_per_second", rate}});
    log("train/", {{"loss", value}, {"lr", optimizer_.lr()}, {"images_per_second", rate}});
    line_start_ = Clock::now();
    line_begin_ = state_.position;
  }

  // Writes figures to the event file, at the current optimizer step.
  void log(const std::string& prefix, const std::vector<Metric>& figures) {
    if (!events_) return;
    for (const auto& [name, value, kind] : figures) {
      if (const auto* const number = std::get_if<double>(&value)) {
        events_->add_scalar(prefix + name, state_.step, *number);
        continue;
      }
      const auto& numbers = std::get<std::vector<double>>(value);
      for (std::size_t i = 0; i < numbers.size(); ++i)
        events_->add_scalar(fmt::format("{}{}/{}", prefix, name, i), state_.step, numbers[i]);
    }
    events_->flush();
  }

  void show_progress(const Tensor& loss) {
    const double left = epoch_seconds_ / static_cast<double>(state_.position - epoch_begin_) *
                        static_cast<double>(loader_.size() - state_.position);
    console_.progress(fmt::format("epoch {}/{}  batch {}/{}  loss {:.4f}  {}  {} left", epoch_ + 1, options_.epochs,
                                  state_.position, loader_.size(), loss.item(),
                                  rate_text(images_since(epoch_begin_) / epoch_seconds_), minutes_text(left)));
  }

  const TrainingOptions& options_;
  const std::shared_ptr<ProcessGroup> group_;
  DistributedDataParallel& ddp_;
  nn::Module& model_;
  optim::Optimizer& optimizer_;
  data::Loader& loader_;
  optim::GradScaler* const scaler_;  // null: none
  Console console_;
  MetricsFile metrics_;
  std::unique_ptr<EventFile> events_;  // null: none

  StopRequest stop_;
  bool time_is_up_ = false;  // --max-time is over

  TrainingState state_;                                 // its arrays are empty
  std::set<std::filesystem::path> proven_checkpoints_;  // rank 0's; see save_checkpoint()
  std::optional<CheckpointLock> checkpoint_lock_;       // rank 0's, of the folder of --checkpoint
  Generator generator_;                                 // default_generator() as the last batch left it
  std::int64_t epoch_ = 0;                              // the epoch that runs
  double total_before_ = 0;            // the sum of this rank's losses in this epoch before the job was resumed
  Array total_loss_ = ops::scalar(0);  // the sum of this rank's losses in this epoch
  Array step_loss_;                    // the mean of this rank's losses in this optimizer step, as far as it is done
  std::int64_t epoch_begin_ = 0;       // the batch with which this process began the epoch
  Clock::time_point epoch_start_;      // the time of epoch_begin_
  double epoch_seconds_ = 0;           // the time from epoch_start_ to the last batch
  std::int64_t line_begin_ = 0;        // the first batch after the last step line
  Clock::time_point line_start_;       // the time of line_begin_
};

TrainingRun::TrainingRun(const TrainingOptions& options, std::shared_ptr<ProcessGroup> group,
                         DistributedDataParallel& ddp, optim::Optimizer& optimizer, data::Loader& loader,
                         optim::GradScaler* scaler)
    : implementation_(std::make_unique<Implementation>(options, required(std::move(group), "TrainingRun"), ddp,
                                                       optimizer, loader, scaler)) {}
TrainingRun::~TrainingRun() = default;
bool TrainingRun::next_epoch() { return implementation_->next_epoch(); }
std::int64_t TrainingRun::epoch() const { return implementation_->epoch(); }
std::int64_t TrainingRun::steps() const { return implementation_->steps(); }
int TrainingRun::parts() const { return implementation_->parts(); }
double TrainingRun::weight() const { return implementation_->weight(); }
bool TrainingRun::begins_step() const { return implementation_->begins_step(); }
bool TrainingRun::completes_step() const { return implementation_->completes_step(); }
bool TrainingRun::step(const Tensor& loss) { return implementation_->step(loss); }
void TrainingRun::end_epoch(const std::vector<Metric>& metrics) { implementation_->end_epoch(metrics); }
void TrainingRun::show(const std::vector<Metric>& metrics) { implementation_->show(metrics); }
void TrainingRun::note(const std::string& line) { implementation_->note(line); }
EventFile* TrainingRun::events() { return implementation_->events(); }
void TrainingRun::finish() { implementation_->finish(); }

}  // namespace tandem::distributed
