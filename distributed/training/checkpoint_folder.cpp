#include <tandem/core/io/atomic_file.h>
#include <tandem/core/io/file_system.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/job/together.h>
#include <tandem/distributed/training/checkpoint_folder.h>
#include <tandem/distributed/training/training_log.h>

#include <fmt/format.h>

#include <utility>

namespace tandem::distributed {

CheckpointFolder::CheckpointFolder(const TrainingOptions& options, ProcessGroup& group, JobState& job,
                                   std::function<void(const std::string&)> note)
    : options_(options), group_(group), job_(job), note_(std::move(note)) {}

void CheckpointFolder::open() {
  if (options_.checkpoint.empty()) return;
  create_folder(options_.checkpoint, "for checkpoints");
  const AtomicFile probe(std::filesystem::path(options_.checkpoint) / "checkpoint.safetensors");
  // A program that only evaluates writes no checkpoint, so it may look at those of a running job.
  if (options_.epochs > 0) lock_.emplace(options_.checkpoint);
  TANDEM_CHECK(options_.resume || !has_checkpoints(options_.checkpoint), "the folder ", options_.checkpoint,
               " holds the checkpoints of an earlier run: give --resume to go on from them, or another "
               "--checkpoint folder to start afresh");
}

std::optional<TrainingState> CheckpointFolder::go_on(const std::function<void(const TrainingState&)>& check) {
  const auto find = [this]() -> std::string {
    if (group_.rank() != 0) return "";
    const auto path = find_checkpoint(options_.checkpoint, options_.program(), note_);
    if (path) proven_.insert(*path);
    return path ? path->string() : "";
  };
  const auto path = group_.all_gather_strings(run_together(group_, find), "checkpoint")[0];
  if (path.empty()) {
    note_("no checkpoint in " + options_.checkpoint + ": starting afresh");
    return std::nullopt;
  }
  auto state = run_together(group_, [&] {
    auto saved = read_checkpoint(path, group_.rank());
    check(saved);
    try {
      job_.restore(saved, note_);
    } catch (const Error& error) {
      detail::fail("the checkpoint ", path, " does not fit this program: ", error.what());
    }
    return saved;
  });
  note_(
      fmt::format("resumed from {}: {} and {} done", path, counted(state.epoch, "epoch"), counted(state.step, "step")));
  return state;
}

void CheckpointFolder::save(TrainingState state, const Array& loss) {
  std::vector<Array> losses;
  for (int r = 0; r < group_.size(); ++r) losses.push_back(ops::empty_like(loss));
  group_.all_gather(losses, loss, "losses")->wait();
  for (const auto& of_rank : losses) state.losses.push_back(static_cast<float>(of_rank.item()));
  RankArrays of_ranks(group_, job_.of_rank(state.generator, state.generator_now));
  group_.rank() == 0 ? write(state, of_ranks) : of_ranks.give();
  // The others wait here and not in the next collective, because rank 0 may write for longer than the group's timeout.
  run_together(group_, [] {}, {.what = "the checkpoint"});
}

void CheckpointFolder::write(TrainingState& state, RankArrays& of_ranks) {
  job_.require_finite();
  job_.fill(state);
  state.to_write = &of_ranks;
  lock_->check();
  save_checkpoint(options_.checkpoint, state, options_.keep_last, &proven_, state.best_step);
  const double mebibytes = static_cast<double>(of_ranks.bytes()) / (1 << 20);
  if (mebibytes >= 1)
    note_(fmt::format("saved a checkpoint at step {}: {:.1f} MiB of it are of single ranks, for going on with {}",
                      state.step, mebibytes, counted(group_.size(), "process", "es")));
}

}  // namespace tandem::distributed
