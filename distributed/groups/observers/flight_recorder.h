// FlightRecorder: what this process did last together with the other ranks, in a file that outlives the process.
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

// The file is mapped memory, so it holds what was recorded however the process ends, SIGKILL included (a host that
// loses power is another matter). `tandemrun --explain` reads the files of all ranks. Any thread may call the methods.
//
// While a recorder lives, SIGUSR2 copies its file to copy/rank-R beside it, unless the program handles that signal.
class FlightRecorder {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Options {
    std::filesystem::path folder;  // there already
    int rank = 0;
    int world_size = 1;
    std::string job{};          // see FlightHeader
    bool is_temporary = false;  // whether the file, and a folder that is empty then, goes when all went well
    std::size_t capacity = FlightHeader::right_capacity;
  };

  // Creates or replaces FOLDER/rank-R. Error when that can't be done, as on a full disk.
  explicit FlightRecorder(const Options& options);
  // If something has failed, or an exception is propagating, a temporary file stays, and stderr says where it is.
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // A group begins. All its ranks make the groups that they have in common in the same order. Returns its number for
  // start(); -1: there are too many.
  int add_group(const std::string& backend, const Members& members);

  // The program has started an operation. Returns its number; 0 where the group is -1.
  std::uint64_t start(int group, std::uint64_t sequence, const Operation& operation, Time when);
  // Operations that are no longer among the last ones are left alone.
  void set_running(std::uint64_t number, Time when);
  void end(std::uint64_t number, bool has_failed, Time when);

  // A group has failed, for this reason. The first reason counts.
  void fail(const std::string& failure);
  void show_life();

  const std::filesystem::path& path() const { return path_; }

 private:
  FlightEntry* find(std::uint64_t number);

  const Options options_;
  const std::filesystem::path path_;
  const FileDescriptor in_use_;  // of the folder
  std::size_t bytes_ = 0;
  FlightHeader* header_ = nullptr;
  FlightEntry* entries_ = nullptr;
  std::mutex mutex_;                // of add_group() and fail()
  std::vector<std::string> names_;  // guarded by mutex_; of all groups so far, without the numbers of equal ones
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
