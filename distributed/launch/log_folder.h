// Where the ranks of a job leave their logs and error files.
#pragma once

#include <tandem/distributed/system/socket.h>

#include <deque>
#include <filesystem>
#include <string>
#include <vector>

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

  // Makes the folder for the flight records of one generation. It is attempt_<generation>/flight. Where the logs are
  // removed it is a temporary folder elsewhere, which stays where keep_flight() was called for it.
  std::filesystem::path flight(int generation);
  // The records of the latest generation are to stay, until those of eight later ones do. Returns their folder; empty:
  // the ranks made no records.
  std::filesystem::path keep_flight();
  // Copies the records of the latest generation to the folder `copy` among them, and returns it; empty: there are none.
  // Error when they can't be copied.
  std::filesystem::path copy_flight() const;

  // The folder that is removed with this object; empty: none is.
  const std::filesystem::path& temporary() const { return temporary_; }

 private:
  std::filesystem::path run_;
  std::filesystem::path temporary_;            // empty: the folder is kept
  std::filesystem::path flight_;               // of the latest generation
  std::vector<std::filesystem::path> unkept_;  // flight records that are removed with this object
  std::deque<std::filesystem::path> kept_;     // flight records that stay
  FileDescriptor lock_;                        // says that temporary_ is in use
};

}  // namespace tandem::distributed
