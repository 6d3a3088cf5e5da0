// FlightRecorder: records the last operations of this process with other ranks, in a file that outlives the process.
#pragma once

#include <tandem/distributed/groups/members.h>
#include <tandem/distributed/groups/observed_operation.h>
#include <tandem/distributed/groups/observers/flight_file.h>
#include <tandem/distributed/groups/operation.h>
#include <tandem/distributed/system/socket.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tandem::distributed {

// The file is mapped memory, so the records survive whatever ends the process, even SIGKILL, but not a power failure.
// `tandemrun --explain` reads the files of all ranks. Any thread may call the methods.
//
// While a recorder lives, SIGUSR2 copies its file to copy/rank-R next to it, unless the program handles that signal.
class FlightRecorder {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Options {
    std::filesystem::path folder;  // must exist
    int rank = 0;
    int world_size = 1;
    std::string job{};          // see FlightHeader
    bool is_temporary = false;  // whether to delete the file, and the folder if it is then empty, after success
    std::size_t capacity = FlightHeader::right_capacity;
  };

  // Creates or replaces FOLDER/rank-R. Throws an Error if that fails, for example because the disk is full.
  explicit FlightRecorder(const Options& options);
  // Deletes a temporary file. If something has failed or an exception is propagating, it keeps the file instead, and
  // prints its path to stderr.
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // Adds a new group. Any two ranks must add the groups that they share in the same order. Returns the group's number
  // for start(), or -1 if there are too many groups.
  int add_group(const std::string& backend, const Members& members);

  // Records that the program has started an operation. Returns the operation's number, or 0 if `group` is -1.
  std::uint64_t start(int group, std::uint64_t sequence, const Operation& operation, Time when);
  // Record that an operation is running or has ended. They ignore an operation whose entry has been overwritten.
  void set_running(std::uint64_t number, Time when);
  void end(std::uint64_t number, bool has_failed, Time when);

  // Records the reason why a group failed. Only the first reason counts.
  void fail(const std::string& failure);
  void show_life();

  const std::filesystem::path& path() const { return path_; }

 private:
  FlightEntry* find(std::uint64_t number);

  const Options options_;
  const std::filesystem::path path_;
  const FileDescriptor in_use_;  // of the folder, keeps it from being cleaned up
  std::size_t bytes_ = 0;
  FlightHeader* header_ = nullptr;
  FlightEntry* entries_ = nullptr;
  std::mutex mutex_;                // held in add_group() and fail()
  std::vector<std::string> names_;  // guarded by mutex_; of all groups so far, without their numbers
};

// Records the operations of one group.
class FlightLane : public OperationObserver {
 public:
  FlightLane(const ObservedGroup& group, std::shared_ptr<FlightRecorder> recorder)
      : recorder_(std::move(recorder)), group_(recorder_->add_group(group.backend, group.members)) {}

  std::uint64_t started(const ObservedOperation& operation, const Operation& with_arrays) noexcept override {
    return recorder_->start(group_, operation.sequence, with_arrays, operation.started);
  }
  void running(const ObservedOperation&, std::uint64_t number, Time when) noexcept override {
    if (number) recorder_->set_running(number, when);
  }
  void ended(const ObservedOperation&, std::uint64_t number, Time when, bool has_failed) noexcept override {
    if (number) recorder_->end(number, has_failed, when);
  }
  void failed(const std::string& reason) noexcept override { recorder_->fail(reason); }

 private:
  const std::shared_ptr<FlightRecorder> recorder_;
  const int group_;
};

}  // namespace tandem::distributed
