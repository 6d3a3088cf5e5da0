// The folders of the ranks' logs, error files and flight records.
#pragma once

#include <tandem/distributed/system/socket.h>

#include <deque>
#include <filesystem>
#include <string>
#include <vector>

namespace tandem::distributed {

// The folders are ROOT/<run id>/attempt_<generation>/<rank>, so that nodes can share ROOT (torchrun uses the local
// rank, and a new ROOT for each launcher). A later run with the same run id appends to the logs of an earlier one. If
// `root` is empty, ROOT is a new temporary folder. The destructor removes it, unless `has_logs` is true. In that case,
// stderr says where the logs are. Folders that killed launchers left behind are removed after a week, except the
// newest, when the next folder is made.
class LogFolder {
 public:
  LogFolder(const std::string& root, const std::string& run_id, bool has_logs);
  ~LogFolder();
  LogFolder(const LogFolder&) = delete;
  LogFolder& operator=(const LogFolder&) = delete;

  // Makes the folder of one rank in one generation. Throws an Error if it can't be made.
  std::filesystem::path of(int generation, int rank) const;

  // Makes the folder for the flight records of one generation. It is attempt_<generation>/flight. If the log folder is
  // temporary, it is another temporary folder instead, which stays if keep_flight() is called for it.
  std::filesystem::path flight(int generation);
  // Keeps the records of the latest generation, until it is called for eight later generations. Returns their folder,
  // or an empty path if the ranks made no records.
  std::filesystem::path keep_flight();
  // Copies the records of the latest generation to the subfolder `copy`, and returns it, or an empty path if there are
  // no records. Throws an Error if they can't be copied.
  std::filesystem::path copy_flight() const;

  // Returns the folder that the destructor removes. May be empty.
  const std::filesystem::path& temporary() const { return temporary_; }

 private:
  std::filesystem::path run_;
  std::filesystem::path temporary_;            // empty: the folder is kept
  std::filesystem::path flight_;               // of the latest generation
  std::vector<std::filesystem::path> unkept_;  // flight records that the destructor removes
  std::deque<std::filesystem::path> kept_;     // flight records that stay
  FileDescriptor lock_;                        // marks temporary_ as used
};

}  // namespace tandem::distributed
