// CheckpointFolder: one job's use of the folder of --checkpoint.
#pragma once

#include <tandem/distributed/groups/process_group.h>
#include <tandem/distributed/system/control_group.h>
#include <tandem/distributed/training/checkpoints/checkpoint.h>
#include <tandem/distributed/training/checkpoints/checkpoint_lock.h>
#include <tandem/distributed/training/checkpoints/checkpoint_writer.h>
#include <tandem/distributed/training/checkpoints/job_state.h>
#include <tandem/distributed/training/metrics/ranking.h>
#include <tandem/distributed/training/options/training_options.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace tandem::distributed {

struct CheckpointFolderOptions {
  std::chrono::milliseconds longest = std::chrono::hours(1);  // how long writing a checkpoint may take
  std::function<std::optional<std::int64_t>()> available_memory = distributed::available_memory;
};

// Rank 0 finds and writes checkpoints. It writes in a thread, while all ranks continue to train, so that they wait only
// while rank 0 copies the state. At most one checkpoint is being written at a time. If the copy would take more than
// half of the available memory, all ranks wait until the checkpoint is written, and a note says so once. With
// --checkpoint-shards, each rank does so with its own state. When all of them have written it, finish() lets rank 0
// write the index, with which the checkpoint becomes valid.
//
// The constructor's arguments must outlive the object. Only one thread may use it.
class CheckpointFolder : NoCopy {
 public:
  CheckpointFolder(const TrainingOptions& options, ProcessGroup& group, JobState& job,
                   std::function<void(const std::string&)> note, CheckpointFolderOptions writing = {});
  // If a checkpoint is being written, waits for it. An error becomes a note, because a destructor can't throw. The
  // training has already failed, or the program has left its loop.
  ~CheckpointFolder();

  // Locks the folder for this job. Call it on rank 0 first, and before the training, so that an error occurs at once
  // and not after hours. Throws an Error if another job has locked the folder, if it is not writable, or if it has
  // checkpoints and --resume is not set. With --checkpoint-shards, other ranks check whether they can write to it.
  void open();

  // Restores the objects of the job from the newest checkpoint, and returns its TrainingState. `now` is the state with
  // which this job begins. The function prints a note for each difference, and throws an Error if the rest of an epoch
  // could not be continued. Returns nullopt, and prints a line, if there is no checkpoint. Collective.
  std::optional<TrainingState> go_on(const TrainingState& now);

  // If the checkpoint of an evaluation is missing, damaged or unreadable, removes the evaluation from the ranking and
  // prints a note. Works only on rank 0, whose ranking the other ranks copy. On other ranks, it does nothing. Call
  // finish() first.
  void check_kept(Ranking& ranking);

  // Calls finish(), and then begins to write a checkpoint of this moment. go_on() will return `state`. `loss` is the
  // sum of this rank's losses in the epoch. `best_step` is the step of the best evaluation, to whose checkpoint a link
  // points, or -1. Collective.
  void save(TrainingState state, const Array& loss, std::int64_t best_step);
  // Returns whether this rank is still writing, so that finish() would have to wait.
  bool is_writing() const { return !writer_.is_over(); }
  // Waits until the checkpoint of the last save() is durable. Returns false if no save() came after the last call.
  // If writing it has failed, or takes longer than allowed, throws on all ranks. The Error names the file. Collective.
  bool finish();

 private:
  void check_fits(const TrainingState& saved, const TrainingState& now) const;
  std::shared_ptr<PendingCheckpoint> begin_writing(TrainingState state, std::unique_ptr<RankArrays> of_ranks,
                                                   std::int64_t best_step);
  void copy(PendingCheckpoint& checkpoint);
  void end_writing(PendingCheckpoint& checkpoint);
  void note_once(bool& is_noted, const std::string& line) const;

  const TrainingOptions& options_;
  ProcessGroup& group_;
  JobState& job_;
  const std::function<void(const std::string&)> note_;
  const CheckpointFolderOptions writing_;
  std::set<std::filesystem::path> proven_;      // rank 0's; see save_checkpoint(). The PendingCheckpoint may have it.
  std::shared_ptr<CheckpointLock> lock_;        // rank 0's
  CheckpointWriter writer_{writing_.longest};   // rank 0's, or that of each rank for its shard
  std::shared_ptr<PendingCheckpoint> pending_;  // from save() to finish(), as writer_
  bool is_pending_ = false;                     // on all ranks: whether finish() was not called since save()
  std::size_t most_copied_ = 0;                 // the largest size of a copy for which there was enough memory
  bool has_said_why_not_ = false;               // whether the reason for the missing link has been printed
  bool has_said_why_blocked_ = false;           // whether the reason why the training waits has been printed
};

}  // namespace tandem::distributed
