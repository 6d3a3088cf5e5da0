// BatchWorkers: threads that make the batches of an epoch ahead of time.
#pragma once

#include <tandem/core/base/temporarily.h>
#include <tandem/data/dataset.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace tandem::data {

// Batches come in order, regardless of the number of threads. One thread calls take(), once per batch.
class BatchWorkers : NoCopy {
 public:
  // `make(number)` makes batch `number` of `batches`. It runs on several threads at once, and must own the data that it
  // reads, because a thread that is stuck in it is abandoned.
  using Make = std::function<Batch(std::int64_t number)>;
  // At most `ahead` batches wait to be taken. Throws an Error if a thread can't be started.
  BatchWorkers(Make make, std::int64_t batches, int threads, int ahead, std::chrono::seconds timeout);
  // Stops the threads. Waits at most `timeout` for them to end.
  ~BatchWorkers();

  // Returns the next batch. Rethrows an exception of `make` for this batch. Throws an Error if the batch does not
  // arrive within `timeout`.
  Batch take();

 private:
  struct Shared;

  void stop();

  const std::chrono::seconds timeout_;
  const std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
  bool is_stuck_ = false;
};

}  // namespace tandem::data
