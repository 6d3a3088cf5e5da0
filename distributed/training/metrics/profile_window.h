// ProfileWindow: the trace of a training (--profile), of all steps or of some, and what it says in a few lines.
#pragma once

#include <tandem/core/profile/profile.h>
#include <tandem/distributed/training/metrics/side_output.h>
#include <tandem/distributed/training/options/training_options.h>

#include <cstdint>
#include <functional>
#include <string>

namespace tandem::distributed {

// For one thread. Without --profile every function does nothing.
class ProfileWindow {
 public:
  // `options` must outlive the object. `note` gets the lines of the summary.
  ProfileWindow(const TrainingOptions& options, int rank, int size, std::function<void(const std::string&)> note);

  // A step begins; `number` counts from 1. With --profile-steps, the trace begins with the first of these.
  void begin_step(std::int64_t number);
  // That step is over. After the last one of --profile-steps the trace ends, with a summary.
  void end_step(std::int64_t number);
  // The training is over: a trace that is being written ends, with a summary. A line says that there is none.
  void finish();
  // Error when the trace could not be written later on. The training has gone on without it.
  void require_written() const { output_.require_written(); }

 private:
  const TrainingOptions& options_;
  const std::string file_;
  const int rank_;
  const std::function<void(const std::string&)> note_;
  SideOutput output_;
  bool is_on_;              // a trace is written
  bool is_over_ = false;    // it has been written
  std::int64_t steps_ = 0;  // in it
};

// The shares of time that a thread waited, and the operations that took most of it: 12 lines at most. The thread that
// trains has the lane "compute". Where GPUs have lanes, their kernels are listed, else what threads compute.
std::string summary_text(const ProfileSummary& summary, std::int64_t steps);

}  // namespace tandem::distributed
