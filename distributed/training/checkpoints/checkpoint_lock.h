// CheckpointLock: ensures that only one job at a time writes checkpoints into a folder.
#pragma once

#include <tandem/distributed/system/socket.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

namespace tandem::distributed {

// A process, and its run.
struct LockOwner {
  std::string host;
  std::int64_t pid = 0;
  std::int64_t started = 0;   // when it locked the folder: seconds since 1970, by its host's clock
  std::int64_t launcher = 0;  // the pid of the process that started it
  std::string run_id;         // the launcher's name for the run; may be empty
  std::int64_t restarts = 0;  // how often that launcher has restarted the run
  std::string job;            // distinguishes jobs with the same run_id: a part of a hash of their token; may be empty

  static LockOwner this_process();
  // Parses the result of text(). Returns nullopt for any other text.
  static std::optional<LockOwner> parse(const std::string& text);
  std::string text() const;  // one line of JSON
  std::string name() const;  // for messages: "process 7 on host a, which began 3 min ago"
  // Returns whether this process belongs to a later start of `earlier`'s run.
  bool restarts_run_of(const LockOwner& earlier) const;
};

// Locks the file FOLDER/checkpoint.lock with flock(2) from construction to destruction. The kernel releases such a lock
// when its process ends. Other users can't open the file (open_lock_file). It contains the LockOwner, as JSON. Some
// file systems do not support flock. There, the file itself is the lock: a job takes over a file that has not changed
// for 60 s. A thread of every job renews the time of its file every 10 s, with flock too, because flock may fail on one
// host only.
//
// A run that its launcher has restarted takes over the lock of its earlier processes at once, because they may be
// stuck, or on a host that is gone.
class CheckpointLock {
 public:
  struct Options {
    bool uses_flock = true;  // false: behaves as on a file system without flock
    std::chrono::milliseconds renewal = std::chrono::seconds(10);
    std::chrono::milliseconds patience = std::chrono::seconds(60);
  };
  // Throws an Error that names the owner if another job holds the lock.
  explicit CheckpointLock(const std::filesystem::path& folder)
      : CheckpointLock(folder, LockOwner::this_process(), {}) {}
  CheckpointLock(const std::filesystem::path& folder, const LockOwner& owner, const Options& options);
  ~CheckpointLock();
  CheckpointLock(const CheckpointLock&) = delete;
  CheckpointLock& operator=(const CheckpointLock&) = delete;

  // Throws an Error if another job has taken over the lock. Call it before writing a checkpoint.
  void check() const;

 private:
  const std::filesystem::path folder_;
  const std::filesystem::path path_;
  const LockOwner owner_;
  const Options options_;
  const std::string text_;  // the text of the file while this process holds it
  FileDescriptor file_;     // open only with flock

  std::mutex mutex_;
  std::condition_variable_any wakes_;
  std::jthread renewer_;

  void take_with_flock();
  void take_by_age();
  void refuse_or_take_over(const std::string& found);
  void renew(const std::stop_token& stop);
};

}  // namespace tandem::distributed
