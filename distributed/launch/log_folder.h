// Where the ranks of a job leave their logs and error files.
#pragma once

#include <tandem/distributed/system/socket.h>

#include <filesystem>
#include <string>

namespace tandem::distributed {

// The folders are ROOT/<run id>/attempt_<generation>/<local rank>, as torchrun has them. If `root` is empty, ROOT is a
// new temporary folder. It is removed with this object, unless `has_logs`; then stderr says where the logs are. What
// killed launchers left of such folders is removed a week later, when the next one is made.
class LogFolder {
 public:
  LogFolder(const std::string& root, const std::string& run_id, bool has_logs);
  ~LogFolder();
  LogFolder(const LogFolder&) = delete;
  LogFolder& operator=(const LogFolder&) = delete;

  // Makes the folder of one rank in one generation, and removes an old error file in it. Error when the folder cannot
  // be made.
  std::filesystem::path of(int generation, int local_rank) const;

  // The folder that is removed with this object; empty: none is.
  const std::filesystem::path& temporary() const { return temporary_; }

 private:
  std::filesystem::path run_;
  std::filesystem::path temporary_;  // empty: the folder is kept
  FileDescriptor lock_;              // temporary_ itself, locked: nobody else removes it meanwhile
};

}  // namespace tandem::distributed
