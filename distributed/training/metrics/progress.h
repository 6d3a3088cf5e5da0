// Progress: where a training stands, and what each of its batches is for.
#pragma once

#include <tandem/data/loader.h>

#include <cstdint>

namespace tandem::distributed {

// The division of an epoch into batches and optimizer steps. While it stays the same, a job that resumes from a
// checkpoint visits the samples that an undisturbed one visits.
struct Division {
  std::int64_t world_size = 1;
  std::int64_t batch_size = 1;  // of each process
  std::int64_t accumulate = 1;  // batches of an optimizer step
  bool operator==(const Division&) const = default;
};

// The part of it that checkpoints keep.
struct Position {
  std::int64_t epoch = 0;   // the epoch that is running or comes next, counted from 0
  std::int64_t step = 0;    // optimizer steps of the whole job so far
  std::int64_t batch = 0;   // batches of this epoch that are done, with the Division of now
  std::int64_t before = 0;  // samples of this epoch, of all ranks, that were done with another Division
};

// A step is an optimizer step everywhere. With --accumulate K it takes the gradients of K batches; the last step of an
// epoch takes the batches that are left.
class Progress {
 public:
  // Nothing is done yet. `loader` must outlive the object.
  Progress(data::Loader& loader, const Division& division, std::int64_t epochs);

  const Position& position() const { return position_; }
  const Division& division() const { return division_; }
  // Continues from there. Samples of the epoch that were done with another Division count as done, and the others are
  // redistributed. Error when the loader's sampler can't do that.
  void go_on(Position position, const Division& before);

  // Of the epoch that is running.
  std::int64_t batches() const { return loader_.size(); }
  bool epoch_is_complete() const { return position_.batch >= batches(); }
  void end_epoch();

  // About the batch that comes next. Its step takes parts() batches. It has weight() of the samples in that step:
  // losses that are means, times their weights, add up to the mean over all samples of the step.
  int parts() const;
  double weight() const;
  bool begins_step() const { return position_.batch % division_.accumulate == 0; }
  bool completes_step() const { return position_.batch % division_.accumulate == parts() - 1; }
  // That batch is done.
  void count();

  // The samples that all ranks have trained on since batch `begin` of this epoch.
  std::int64_t samples_since(std::int64_t begin) const;

  // For schedules: the steps of the whole training with this Division, and how many of these are done. It is the part
  // of the training that counts, not the steps that another Division took for it.
  std::int64_t planned_steps() const { return epochs_ * steps_per_epoch_; }
  std::int64_t schedule_step() const;
  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }

 private:
  std::int64_t samples_in(std::int64_t begin, std::int64_t batches) const;  // of this rank
  std::int64_t step_begin() const { return position_.batch - position_.batch % division_.accumulate; }

  data::Loader& loader_;
  const Division division_;
  const std::int64_t epochs_;
  const std::int64_t steps_per_epoch_;  // of an epoch that was begun with this Division
  Position position_;
};

}  // namespace tandem::distributed
