// BatchWorkers: threads that make the batches of an epoch in advance.
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

// Batches come in order, with any number of threads. One thread calls take(), once for each batch.
class BatchWorkers : NoCopy {
 public:
  // `make(number)` makes batch `number` of `batches`. It runs on several threads at a time, and must own what it reads:
  // a thread that is stuck in it is left behind.
  using Make = std::function<Batch(std::int64_t number)>;
  // At most `ahead` batches wait to be taken. Throws an Error when a thread cannot be started.
  BatchWorkers(Make make, std::int64_t batches, int threads, int ahead, std::chrono::seconds timeout);
  // Stops the threads and waits for them for at most `timeout`.
  ~BatchWorkers();

  // The next batch. Throws what `make` threw for it, or an Error when it has not come within `timeout`.
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
