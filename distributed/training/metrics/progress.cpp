#include <tandem/distributed/training/metrics/progress.h>

#include <algorithm>
#include <cmath>

namespace tandem::distributed {

Progress::Progress(data::Loader& loader, const Division& division, std::int64_t epochs)
    : loader_(loader),
      division_(division),
      epochs_(epochs),
      steps_per_epoch_((loader.size() + division.accumulate - 1) / division.accumulate) {}

void Progress::go_on(Position position, const Division& before) {
  if (position.batch > 0 && before != division_) {
    const double done = static_cast<double>(position.batch) * static_cast<double>(before.batch_size) *
                        static_cast<double>(before.world_size);
    const auto all = loader_.dataset().size();
    position.before = done >= static_cast<double>(all - std::min(all, position.before))
                          ? all
                          : position.before + static_cast<std::int64_t>(done);
    position.batch = 0;
  }
  loader_.leave_out(position.before);
  // Skip a rest of one sample for each rank, because batch norms reject such a batch, and the job could not continue.
  if (before != division_ && position.before > 0 && division_.batch_size > 1 && loader_.samples() == 1)
    loader_.leave_out(position.before = loader_.dataset().size());
  position_ = position;
}

void Progress::end_epoch() {
  ++position_.epoch;
  position_.batch = position_.before = 0;
  loader_.leave_out(0);
}

int Progress::parts() const { return static_cast<int>(std::min(division_.accumulate, batches() - step_begin())); }

double Progress::weight() const {
  return static_cast<double>(samples_in(position_.batch, 1)) / static_cast<double>(samples_in(step_begin(), parts()));
}

void Progress::count() {
  position_.step += completes_step();
  ++position_.batch;
}

std::int64_t Progress::samples_in(std::int64_t begin, std::int64_t batches) const {
  const auto up_to = [this](std::int64_t batch) {
    return batch >= loader_.size() ? loader_.samples() : batch * division_.batch_size;
  };
  return up_to(begin + batches) - up_to(begin);
}

std::int64_t Progress::samples_since(std::int64_t begin) const {
  return samples_in(begin, position_.batch - begin) * division_.world_size;
}

std::int64_t Progress::schedule_step() const {
  const double done_before =
      static_cast<double>(position_.before) / static_cast<double>(std::max<std::int64_t>(1, loader_.dataset().size()));
  const std::int64_t before = std::llround(std::min(1.0, done_before) * static_cast<double>(steps_per_epoch_));
  const std::int64_t now = (position_.batch + division_.accumulate - 1) / division_.accumulate;
  return std::min(position_.epoch, epochs_) * steps_per_epoch_ + std::min(steps_per_epoch_, before + now);
}

}  // namespace tandem::distributed
