// Progress: the position of a training, and the role of each of its batches.
#pragma once

#include <tandem/data/loader.h>

#include <cstdint>

namespace tandem::distributed {

// The division of an epoch into batches and optimizer steps. As long as it does not change, a job that resumes from a
// checkpoint visits the same samples as an uninterrupted job.
struct Division {
  std::int64_t world_size = 1;
  std::int64_t batch_size = 1;  // of each process
  std::int64_t accumulate = 1;  // batches of an optimizer step
  bool operator==(const Division&) const = default;
};

// The position, which checkpoints store.
struct Position {
  std::int64_t epoch = 0;   // the epoch that is running or comes next, counted from 0
  std::int64_t step = 0;    // optimizer steps of the whole job so far
  std::int64_t batch = 0;   // batches of this epoch that are done with the current Division
  std::int64_t before = 0;  // samples of this epoch, of all ranks, that were done with another Division
};

// A step is always an optimizer step. With --accumulate K, it uses the gradients of K batches. The last step of an
// epoch uses the remaining batches.
class Progress {
 public:
  // Starts at the beginning. `loader` must outlive the object.
  Progress(data::Loader& loader, const Division& division, std::int64_t epochs);

  const Position& position() const { return position_; }
  const Division& division() const { return division_; }
  // Continues from `position`. Samples of the epoch that were visited with another Division count as done, and the rest
  // are redistributed. Throws an Error if the loader's sampler can't do that.
  void go_on(Position position, const Division& before);

  // These are about the current epoch.
  std::int64_t batches() const { return loader_.size(); }
  bool epoch_is_complete() const { return position_.batch >= batches(); }
  void end_epoch();

  // These are about the next batch. Its step uses parts() batches. weight() is the batch's fraction of the samples in
  // that step. The batches' mean losses, multiplied by their weights, add up to the mean over all samples of the step.
  int parts() const;
  double weight() const;
  bool begins_step() const { return position_.batch % division_.accumulate == 0; }
  bool completes_step() const { return position_.batch % division_.accumulate == parts() - 1; }
  // Counts the next batch as done.
  void count();

  // Returns the number of samples on which all ranks have trained since batch `begin` of this epoch.
  std::int64_t samples_since(std::int64_t begin) const;

  // For schedules: the steps of the whole training with this Division, and how many of them are done. The fraction of
  // the training counts, not the number of steps that another Division needed for it.
  std::int64_t planned_steps() const { return epochs_ * steps_per_epoch_; }
  std::int64_t schedule_step() const;
  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }

 private:
  std::int64_t samples_in(std::int64_t begin, std::int64_t batches) const;  // of this rank
  std::int64_t step_begin() const { return position_.batch - position_.batch % division_.accumulate; }

  data::Loader& loader_;
  const Division division_;
  const std::int64_t epochs_;
  const std::int64_t steps_per_epoch_;  // of an epoch that starts with this Division
  Position position_;
};

}  // namespace tandem::distributed
