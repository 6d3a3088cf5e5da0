#include <tandem/core/device/memory_stats.h>
#include <tandem/core/io/atomic_file.h>
#include <tandem/core/io/file_system.h>
#include <tandem/core/io/input_file.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/job/together.h>
#include <tandem/distributed/system/random_text.h>
#include <tandem/distributed/training/checkpoints/checkpoint_folder.h>
#include <tandem/distributed/training/metrics/console.h>
#include <tandem/distributed/training/options/given_options.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tandem::distributed {

CheckpointFolder::CheckpointFolder(const TrainingOptions& options, ProcessGroup& group, JobState& job,
                                   std::function<void(const std::string&)> note, CheckpointFolderOptions writing)
    : options_(options), group_(group), job_(job), note_(std::move(note)), writing_(std::move(writing)) {}

void CheckpointFolder::open() {
  const bool is_first = group_.rank() == 0;
  if (options_.checkpoint.empty() || !(is_first || options_.checkpoint_shards)) return;
  if (is_first) create_folder(options_.checkpoint, "for checkpoints");
  TANDEM_CHECK(std::filesystem::is_directory(options_.checkpoint), "rank 0 has created the folder ",
               options_.checkpoint, ", but rank ", group_.rank(),
               " does not see it: with --checkpoint-shards, all ranks must share the folder of --checkpoint");
  const AtomicFile probe(std::filesystem::path(options_.checkpoint) / "checkpoint.safetensors");
  if (!is_first) return;
  // A program that only evaluates writes no checkpoint, so it may read the checkpoints of a running job.
  if (options_.epochs > 0) lock_ = std::make_shared<CheckpointLock>(options_.checkpoint);
  if (lock_) remove_unused_shards(options_.checkpoint);
  TANDEM_CHECK(options_.resume || !has_checkpoints(options_.checkpoint), "the folder ", options_.checkpoint,
               " holds the checkpoints of an earlier run: give --resume to continue from them, or another "
               "--checkpoint folder to start afresh");
}

std::optional<TrainingState> CheckpointFolder::go_on(const TrainingState& now) {
  const auto find = [this]() -> std::string {
    if (group_.rank() != 0) return "";
    const auto path = find_checkpoint(options_.checkpoint, options_.program(), note_);
    if (path) proven_.insert(*path);
    return path ? path->string() : "";
  };
  const auto path = group_.all_gather_strings(run_together(group_, find), "checkpoint")[0];
  if (path.empty()) {
    note_("WARNING: --resume found no checkpoint in " + options_.checkpoint +
          ": the training starts from the beginning. If you expected one there, check the folder's name");
    return std::nullopt;
  }
  auto state = run_together(group_, [&] {
    auto saved = read_checkpoint(path, group_.rank(), Unwanted::left, job_.share());
    check_fits(saved, now);
    try {
      job_.restore(saved, note_);
    } catch (const Error& error) {
      detail::fail("the checkpoint ", path, " does not fit this program: ", error.what());
    }
    return saved;
  });
  const bool is_mid_epoch = state.position + state.before > 0;
  const std::string epochs = is_mid_epoch && state.epoch == 0
                                 ? "a part of the first epoch"
                                 : counted(state.epoch, "epoch") + (is_mid_epoch ? " and a part of the next" : "");
  note_(fmt::format("resumed from {}: {} done, {} in all", path, epochs, counted(state.step, "step")));
  return state;
}

void CheckpointFolder::check_fits(const TrainingState& saved, const TrainingState& now) const {
  const bool is_mid_epoch = saved.position + saved.before > 0;
  const auto compare = [&](const std::string& before, const std::string& then, bool must_be_same) {
    if (before == then) return;
    TANDEM_CHECK(!is_mid_epoch || !must_be_same, "the checkpoint was written in the middle of an epoch with ", before,
                 ", but this run has ", then, ": continue with the same, or from the end of an epoch");
    note_(fmt::format(
        "note: the checkpoint was written with {}, continuing with {}{}", before, then,
        is_mid_epoch
            ? ": the remaining samples are redistributed, and the bits differ from those of an uninterrupted run"
            : ""));
  };
  compare(fmt::format("--seed {}", saved.seed), fmt::format("--seed {}", now.seed), true);
  compare(counted(saved.dataset_size, "sample"), counted(now.dataset_size, "sample"), true);
  compare(fmt::format("--batch-size {}", saved.batch_size), fmt::format("--batch-size {}", now.batch_size), false);
  compare(fmt::format("--accumulate {}", saved.accumulate), fmt::format("--accumulate {}", now.accumulate), false);
  compare(counted(saved.world_size, "process", "es"), counted(now.world_size, "process", "es"), false);
  for (const auto& change : changes_since(saved.options, options_.given())) note_("note: " + change);
}

void CheckpointFolder::check_kept(Ranking& ranking) {
  if (!lock_) return;
  for (const std::int64_t step : ranking.kept_steps()) {
    const auto path = checkpoint_of(options_.checkpoint, step);
    const bool has_place = ranking.has_place(step);
    if (path && (!has_place || proven_.contains(*path))) continue;
    try {
      TANDEM_CHECK(path, "it is not there any more");
      read_checkpoint(*path, 0, Unwanted::checked);
      proven_.insert(*path);
    } catch (const Error& error) {
      if (has_place)
        note_(fmt::format("warning: the checkpoint after {}, one of the best by {}, no longer counts as such: {}",
                          counted(step, "step"), ranking.wanted(), error.what()));
      ranking.lose(step, dynamic_cast<const UnreadableFile*>(&error) != nullptr);
    }
  }
}

void CheckpointFolder::save(TrainingState state, const Array& loss, std::int64_t best_step) {
  finish();
  std::vector<Array> losses;
  for (int r = 0; r < group_.size(); ++r) losses.push_back(ops::empty_like(loss));
  group_.all_gather(losses, loss, "losses")->wait();
  for (const auto& of_rank : losses) state.losses.push_back(static_cast<float>(of_rank.item()));
  job_.gather(options_.checkpoint_shards);
  auto own = job_.of_rank(state.generator, state.generator_now);
  std::unique_ptr<RankArrays> of_ranks;
  if (options_.checkpoint_shards) {
    state.shards = group_.broadcast_string(random_text(1), 0, "name of the shards");
    for (const auto& [name, array] : own) state.of_rank.push_back({rank_name(group_.rank(), name), array});
  } else {
    of_ranks = std::make_unique<RankArrays>(group_, std::move(own));
  }
  // Of the ranks that write. The other ranks meet it when they next do something together with them.
  std::exception_ptr failure;
  const bool writes = group_.rank() == 0 || options_.checkpoint_shards;
  std::shared_ptr<PendingCheckpoint> pending;
  try {
    if (writes) pending = begin_writing(std::move(state), std::move(of_ranks), best_step);
    else of_ranks->give();
  } catch (...) {
    if (!writes) throw;
    failure = std::current_exception();
  }
  // The other ranks wait here instead of in the next collective, because rank 0 may have no memory for a copy, and then
  // writes for longer than the group's timeout.
  run_together(group_,
               [&] {
                 if (failure) std::rethrow_exception(failure);
               },
               {.what = "the checkpoint"});
  pending_ = std::move(pending);
  is_pending_ = true;
}

std::shared_ptr<PendingCheckpoint> CheckpointFolder::begin_writing(TrainingState state,
                                                                   std::unique_ptr<RankArrays> of_ranks,
                                                                   std::int64_t best_step) {
  if (group_.rank() == 0) {
    job_.require_finite();
    job_.fill(state);
  }
  const auto checkpoint = std::make_shared<PendingCheckpoint>(PendingCheckpoint{options_.checkpoint,
                                                                                std::move(state),
                                                                                std::move(of_ranks),
                                                                                group_.rank(),
                                                                                options_.keep_last,
                                                                                best_step,
                                                                                std::exchange(proven_, {}),
                                                                                lock_,
                                                                                {}});
  try {
    copy(*checkpoint);
  } catch (const Error& error) {
    note_once(has_said_why_blocked_,
              fmt::format("note: the training waits while checkpoints are written: {}", error.what()));
    checkpoint->write();
    return checkpoint;
  }
  checkpoint->receive();
  writer_.start(checkpoint);
  return checkpoint;
}

// Between two checkpoints, the allocator keeps the memory of the copy, so that it does not count as available.
void CheckpointFolder::copy(PendingCheckpoint& checkpoint) {
  const std::size_t bytes = checkpoint.bytes();
  const std::size_t kept = std::min<std::size_t>({bytes, most_copied_, memory_stats().bytes_cached});
  const auto available = writing_.available_memory();
  const auto mebibytes = [](auto count) { return fmt::format("{:.1f} MiB", static_cast<double>(count) / (1 << 20)); };
  TANDEM_CHECK(!available || bytes - kept <= static_cast<std::size_t>(std::max<std::int64_t>(*available, 0)) / 2,
               "a copy of the state takes ", mebibytes(bytes), ", and ", mebibytes(*available),
               " of memory are available");
  checkpoint.copy_arrays();
  most_copied_ = std::max(most_copied_, bytes);
}

bool CheckpointFolder::finish() {
  if (!std::exchange(is_pending_, false)) return false;
  const auto pending = std::exchange(pending_, {});
  const auto end = [&] {
    if (writer_.is_busy()) writer_.wait();
  };
  // The error of a rank that writes comes before the other ranks lose patience.
  const OwnWork work{.what = "the checkpoint", .longest = writing_.longest + std::chrono::minutes(1)};
  run_together(group_, end, work);
  // All shards are durable.
  const auto publish = [&] {
    if (group_.rank() == 0) pending->publish();
  };
  if (options_.checkpoint_shards) run_together(group_, publish, work);
  if (group_.rank() == 0) end_writing(*pending);
  return true;
}

CheckpointFolder::~CheckpointFolder() {
  try {
    if (is_writing()) note_("note: waiting for the last checkpoint, which is still being written");
    if (writer_.is_busy()) writer_.wait();
    if (!pending_ || group_.rank() != 0) return;
    if (options_.checkpoint_shards) pending_->publish();  // throws if another rank has not written its shard
    end_writing(*pending_);
  } catch (const std::exception& error) {
    note_(fmt::format("WARNING: {}", error.what()));
  }
}

void CheckpointFolder::end_writing(PendingCheckpoint& checkpoint) {
  proven_ = std::move(checkpoint.proven);
  if (!checkpoint.why_no_link.empty())
    note_once(has_said_why_not_, fmt::format("note: {} has no link best.safetensors to the best checkpoint: {}",
                                             options_.checkpoint, checkpoint.why_no_link));
  const auto of_ranks = checkpoint.of_ranks ? checkpoint.of_ranks->bytes() : 0;
  const double mebibytes = static_cast<double>(of_ranks) / (1 << 20);
  if (mebibytes >= 1)
    note_(fmt::format("saved a checkpoint at step {}: {:.1f} MiB of it belong to single ranks, for a resume with {}",
                      checkpoint.state.step, mebibytes, counted(group_.size(), "process", "es")));
}

void CheckpointFolder::note_once(bool& is_noted, const std::string& line) const {
  if (!std::exchange(is_noted, true)) note_(line);
}

}  // namespace tandem::distributed
