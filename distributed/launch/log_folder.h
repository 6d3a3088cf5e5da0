// Where the ranks of a job leave their logs and error files.
#pragma once

#include <filesystem>
#include <string>

namespace tandem::distributed {

// ROOT/<run id>/attempt_<number>/<local rank>, as torchrun lays it out. Without a root it is a temporary folder, which
// goes with this object unless it is to keep logs; then stderr says where they are.
class LogFolder {
 public:
  LogFolder(const std::string& root, const std::string& run_id, bool has_logs);
  ~LogFolder();
  LogFolder(const LogFolder&) = delete;
  LogFolder& operator=(const LogFolder&) = delete;

  // The folder of one rank in one attempt, made and without an old error file. Error when it cannot be made.
  std::filesystem::path of(int attempt, int local_rank) const;

  // The one that goes with this object; empty: none does.
  const std::filesystem::path& temporary() const { return temporary_; }

 private:
  std::filesystem::path run_;
  std::filesystem::path temporary_;  // empty: the folder stays
};

}  // namespace tandem::distributed
