// CheckpointFolder: the folder of --checkpoint, as one job uses it.
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

// Rank 0 writes and looks for checkpoints, the others wait for it. What the constructor gets must outlive the object.
class CheckpointFolder {
 public:
  CheckpointFolder(const TrainingOptions& options, ProcessGroup& group, JobState& job,
                   std::function<void(const std::string&)> note);

  // Takes the folder for this job, before the training and not after hours of it. Not collective: for rank 0. Error
  // when another job has it, when nothing can be written there, or when it has checkpoints and --resume is not given.
  void open();

  // What the newest checkpoint says of the training, after bringing the objects of the job to its state. `now` says how
  // this job begins: what differs is noted, and an Error where the rest of an epoch would not be the rest of it any
  // more. Nullopt, and a line that says so, when there is no checkpoint. Collective.
  std::optional<TrainingState> go_on(const TrainingState& now);

  // An evaluation whose checkpoint is gone, damaged or unreadable loses its place, and a note says so. For rank 0,
  // whose ranking the others take over; elsewhere nothing happens.
  void check_kept(Ranking& ranking);

  // Writes a checkpoint. `state` is what go_on() will return. `loss`: the sum of this rank's losses of the epoch.
  // `best_step`: that of the best evaluation, to whose checkpoint a link leads; -1: none. Collective.
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
  bool has_said_why_not_ = false;           // there is no link to the best checkpoint
};

}  // namespace tandem::distributed
