// How a training program ends: its exit code, which process says what went wrong, and a trace that is complete.
#pragma once

#include <functional>
#include <string>

namespace tandem::distributed {

// Calls `body`. `is_rank_0`: whether this process speaks for all of the job. Returns the exit code, and prints errors,
// as TrainingOptions::run() says.
int exit_code_of(const std::string& program, const std::function<void(bool is_rank_0)>& body);

// Records a trace of this process for as long as the object lives, and writes it to `path` (empty: no trace). A program
// that fails leaves a trace, too.
class ProfileOfRun {
 public:
  ProfileOfRun(const std::string& path, int rank);
  ~ProfileOfRun();
  ProfileOfRun(const ProfileOfRun&) = delete;
  ProfileOfRun& operator=(const ProfileOfRun&) = delete;
};

}  // namespace tandem::distributed
