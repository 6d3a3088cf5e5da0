// ProfileWindow: traces all or some steps of a training (--profile), and summarises the trace in a few lines.
#pragma once

#include <tandem/core/profile/profile.h>
#include <tandem/distributed/training/metrics/side_output.h>
#include <tandem/distributed/training/options/training_options.h>

#include <cstdint>
#include <functional>
#include <string>

namespace tandem::distributed {

// Only one thread may use it. Without --profile, no function has an effect.
class ProfileWindow {
 public:
  // `options` must outlive the object. `note` is called with the lines of the summary.
  ProfileWindow(const TrainingOptions& options, int rank, int size, std::function<void(const std::string&)> note);

  // Called when a step begins. `number` counts from 1. With --profile-steps, the trace begins with the first of these
  // steps.
  void begin_step(std::int64_t number);
  // Called when the step is over. After the last step of --profile-steps, the trace ends with a summary.
  void end_step(std::int64_t number);
  // Called when the training is over. Ends a running trace with a summary. Prints a line if there was no step to trace.
  void finish();
  // Throws an Error if writing the trace failed during the training, which continued without it.
  void require_written() const { output_.require_written(); }

 private:
  const TrainingOptions& options_;
  const std::string file_;
  const int rank_;
  const std::function<void(const std::string&)> note_;
  SideOutput output_;
  bool is_on_;              // whether a trace is running
  bool is_over_ = false;    // whether the trace has been written
  std::int64_t steps_ = 0;  // number of steps in the trace
};

// Returns the fractions of time that a thread waited, and the operations that took the most time, in at most 12 lines.
// The training thread has the lane "compute". If GPUs have lanes, the text lists their kernels, otherwise the
// computations of threads.
std::string summary_text(const ProfileSummary& summary, std::int64_t steps);

}  // namespace tandem::distributed
