// CheckpointFolder: one job's use of the folder of --checkpoint.
#pragma once

#include <tandem/distributed/groups/process_group.h>
#include <tandem/distributed/training/checkpoints/checkpoint.h>
#include <tandem/distributed/training/checkpoints/checkpoint_lock.h>
#include <tandem/distributed/training/checkpoints/job_state.h>
#include <tandem/distributed/training/metrics/ranking.h>
#include <tandem/distributed/training/options/training_options.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>

namespace tandem::distributed {

// Rank 0 finds and writes checkpoints, and the other ranks wait for it. The constructor's arguments must outlive the
// object.
class CheckpointFolder {
 public:
  CheckpointFolder(const TrainingOptions& options, ProcessGroup& group, JobState& job,
                   std::function<void(const std::string&)> note);

  // Locks the folder for this job. Call it on rank 0 before the training, so an error does not occur after hours.
  // Throws an Error if another job has locked the folder, if it is not writable, or if it has checkpoints and --resume
  // is not set.
  void open();

  // Restores the objects of the job from the newest checkpoint, and returns its TrainingState. `now` is the state with
  // which this job begins. The function prints a note for each difference, and throws an Error if the rest of an epoch
  // could not be continued. Returns nullopt, and prints a line, if there is no checkpoint. Collective.
  std::optional<TrainingState> go_on(const TrainingState& now);

  // If the checkpoint of an evaluation is missing, damaged or unreadable, removes the evaluation from the ranking and
  // prints a note. Works only on rank 0, whose ranking the other ranks copy. On other ranks, it does nothing.
  void check_kept(Ranking& ranking);

  // Writes a checkpoint. go_on() will return `state`. `loss` is the sum of this rank's losses in the epoch. `best_step`
  // is the step of the best evaluation, to whose checkpoint a link points, or -1. Collective.
  void save(TrainingState state, const Array& loss, std::int64_t best_step);

 private:
  void check_fits(const TrainingState& saved, const TrainingState& now) const;
  void write(TrainingState& state, RankArrays& of_ranks, std::int64_t best_step);
  void link_best(std::int64_t step);

  const TrainingOptions& options_;
  ProcessGroup& group_;
  JobState& job_;
  const std::function<void(const std::string&)> note_;
  std::set<std::filesystem::path> proven_;  // rank 0's; see save_checkpoint()
  std::optional<CheckpointLock> lock_;      // rank 0's
  bool has_said_why_not_ = false;           // whether the reason for the missing link has been printed
};

}  // namespace tandem::distributed
