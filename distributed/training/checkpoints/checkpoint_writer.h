// CheckpointWriter: writes a checkpoint on a thread of rank 0, or the shards of it on one of each rank, while the
// training continues.
#pragma once

#include <tandem/core/base/deadline.h>
#include <tandem/core/base/temporarily.h>
#include <tandem/distributed/training/checkpoints/checkpoint.h>
#include <tandem/distributed/training/checkpoints/checkpoint_lock.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>

namespace tandem::distributed {

// A checkpoint to write, and everything that write() uses. Only one thread at a time may use it.
struct PendingCheckpoint {
  std::filesystem::path folder;
  TrainingState state;                   // without to_write
  std::unique_ptr<RankArrays> of_ranks;  // null if each rank writes a shard
  std::int64_t rank = 0;                 // whose shard it is
  std::int64_t keep_last = 1;
  std::int64_t best_step = -1;             // for link_best_checkpoint()
  std::set<std::filesystem::path> proven;  // see save_checkpoint()
  std::shared_ptr<const CheckpointLock> lock;
  std::string why_no_link;  // set by write(): the result of link_best_checkpoint()

  // Returns the size of all arrays, which is also the size of their copies.
  std::size_t bytes() const;
  // Replaces the arrays of `state`, which are those of the training, by copies in host memory. Allocates memory for
  // those of `of_ranks`. Throws an Error if there is not enough memory. write() still works after that.
  void copy_arrays();
  // Copies the arrays of `of_ranks` into that memory, while the other ranks call RankArrays::give().
  void receive();
  // Writes the rank's shard, or calls publish() if there are no shards. Uses no process group if receive() was
  // called.
  void write();
  // Checks the lock, writes the checkpoint or the index of the shards, removes older checkpoints, and links the best
  // one. Only rank 0 calls it.
  void publish();
};

// The thread owns the PendingCheckpoint from start() until wait() has returned. It uses nothing else: no process group,
// no array of the training, and no object of the caller. Only one other thread may use the CheckpointWriter. That
// thread must call wait() after each start(), before the destructor.
class CheckpointWriter : NoCopy {
 public:
  // `longest` is how long writing a checkpoint may take.
  explicit CheckpointWriter(std::chrono::milliseconds longest) : longest_(longest) {}

  // Begins to write. Call it only if is_busy() is false. Writes at once if the system allows no more threads.
  void start(std::shared_ptr<PendingCheckpoint> checkpoint);
  // Returns whether wait() was not called since start().
  bool is_busy() const { return done_.valid(); }
  // Returns whether wait() would return or throw at once.
  bool is_over() const;
  // Returns the checkpoint when it is durable. Throws the Error of write(). After `longest`, throws an Error that names
  // the file, and abandons the thread, which a hung disk may block forever. Call it only if is_busy() is true.
  std::shared_ptr<PendingCheckpoint> wait();

 private:
  const std::chrono::milliseconds longest_;
  std::shared_ptr<PendingCheckpoint> checkpoint_;  // the thread's while is_busy()
  std::future<void> done_;
  Deadline deadline_{};
  std::thread thread_;
};

}  // namespace tandem::distributed
