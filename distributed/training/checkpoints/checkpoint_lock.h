// CheckpointLock: one job at a time writes checkpoints into a folder.
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

// A process, and the run that it belongs to.
struct LockOwner {
  std::string host;
  std::int64_t pid = 0;
  std::int64_t started = 0;   // when it took the lock: seconds since 1970, by its host's clock
  std::int64_t launcher = 0;  // the process that started it
  std::string run_id;         // the launcher's name for the run; empty: it has none
  std::int64_t restarts = 0;  // how often that launcher has started the run again

  static LockOwner this_process();
  // Parses what text() wrote. Returns nullopt for any other text.
  static std::optional<LockOwner> parse(const std::string& text);
  std::string text() const;  // one line of JSON
  std::string name() const;  // for people: "process 7 on host a, which began 3 min ago"
  // Whether this one is a later start of `earlier`'s run.
  bool restarts_run_of(const LockOwner& earlier) const;
};

// Holds the file FOLDER/checkpoint.lock, with flock(2), from construction to destruction. The kernel ends such a lock
// with its process. Other users can't open the file (open_lock_file). It says who holds it, as JSON. Some file systems
// have no flock. There the file alone is the lock: a thread renews its time every 10 s, and who finds it unchanged for
// 60 s takes it over.
//
// A run that its launcher has started again takes the lock from its earlier processes at once: they may be stuck, or on
// a host that is gone.
class CheckpointLock {
 public:
  struct Options {
    bool uses_flock = true;  // false: as on a file system without it
    std::chrono::milliseconds renewal = std::chrono::seconds(10);
    std::chrono::milliseconds patience = std::chrono::seconds(60);
  };
  // Error, with the name of the owner, when another job holds the lock.
  explicit CheckpointLock(const std::filesystem::path& folder)
      : CheckpointLock(folder, LockOwner::this_process(), {}) {}
  CheckpointLock(const std::filesystem::path& folder, const LockOwner& owner, const Options& options);
  ~CheckpointLock();
  CheckpointLock(const CheckpointLock&) = delete;
  CheckpointLock& operator=(const CheckpointLock&) = delete;

  // To be called before a checkpoint is written: Error when another job has taken the lock meanwhile.
  void check() const;

 private:
  const std::filesystem::path folder_;
  const std::filesystem::path path_;
  const LockOwner owner_;
  const Options options_;
  const std::string text_;  // what the file says while this process holds it
  FileDescriptor file_;     // with flock only

  std::mutex mutex_;
  std::condition_variable_any wakes_;
  std::jthread renewer_;  // without flock only

  void take_with_flock();
  void take_by_age();
  void refuse_or_take_over(const std::string& found);
  void renew(const std::stop_token& stop);
};

}  // namespace tandem::distributed
