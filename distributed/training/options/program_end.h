// Ends a training program: determines its exit code and the process that prints the error, and completes its trace.
#pragma once

#include <functional>
#include <string>

namespace tandem::distributed {

// Calls `body`. Its argument is whether this process prints for the whole job. Returns the exit code and prints errors
// as described at TrainingOptions::run().
int exit_code_of(const std::string& program, const std::function<void(bool is_rank_0)>& body);

// Records a trace of this process while the object lives, and writes it to `path`, unless `path` is empty. A failing
// program writes a trace too.
class ProfileOfRun {
 public:
  ProfileOfRun(const std::string& path, int rank);
  ~ProfileOfRun();
  ProfileOfRun(const ProfileOfRun&) = delete;
  ProfileOfRun& operator=(const ProfileOfRun&) = delete;
};

}  // namespace tandem::distributed
