#include <tandem/core/base/deadline.h>
#include <tandem/data/batch_workers.h>

#include <tandem/core/base/check.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/base/thread.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <utility>

namespace tandem::data {

// State shared by the workers and the thread that takes batches. Batch k is stored in place k modulo the number of
// places, from the moment at which a worker has made it until it is taken.
struct BatchWorkers::Shared {
  struct Place {
    Batch batch;
    std::exception_ptr error;
    bool is_ready = false;
  };

  const Make make;
  const std::int64_t batches;

  std::mutex mutex;  // guards all members below
  std::condition_variable is_ready;
  std::condition_variable has_room;
  std::condition_variable has_ended;
  std::vector<Place> places;
  std::int64_t next_to_make = 0;
  std::int64_t next_to_take = 0;
  int running;
  bool is_stopped = false;

  Shared(Make make, std::int64_t batches, int threads, int ahead)
      : make(std::move(make)), batches(batches), places(static_cast<std::size_t>(ahead)), running(threads) {}

  Place& place(std::int64_t number) { return places[static_cast<std::size_t>(number) % places.size()]; }

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      has_room.wait(lock, [&] {
        return is_stopped || next_to_make == batches ||
               next_to_make < next_to_take + static_cast<std::int64_t>(places.size());
      });
      if (is_stopped || next_to_make == batches) break;
      const std::int64_t number = next_to_make++;
      lock.unlock();
      Place made;
      try {
        made.batch = make(number);
      } catch (...) {
        made.error = std::current_exception();
      }
      made.is_ready = true;
      lock.lock();
      place(number) = std::move(made);
      is_ready.notify_one();
    }
    --running;
    has_ended.notify_one();
  }
};

BatchWorkers::BatchWorkers(Make make, std::int64_t batches, int threads, int ahead, std::chrono::seconds timeout)
    : timeout_(timeout), shared_(std::make_shared<Shared>(std::move(make), batches, threads, ahead)) {
  try {
    for (int i = 0; i < threads; ++i) {
      const auto name = "thread " + std::to_string(i + 1) + " of " + std::to_string(threads) + " of a Loader";
      threads_.push_back(start_thread(name, [shared = shared_] {
        name_thread("loader");
        shared->run();
      }));
    }
  } catch (const Error& error) {
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->running -= threads - static_cast<int>(threads_.size());
    }
    stop();
    detail::fail(error.what(), ", or use fewer workers");
  }
}

BatchWorkers::~BatchWorkers() { stop(); }

void BatchWorkers::stop() {
  std::unique_lock lock(shared_->mutex);
  shared_->is_stopped = true;
  shared_->has_room.notify_all();
  const bool have_ended =
      wait_until(shared_->has_ended, lock, RunningTime::now() + (is_stuck_ ? std::chrono::seconds(0) : timeout_),
                 [&] { return shared_->running == 0; });
  lock.unlock();
  for (auto& thread : threads_) {
    // A worker that never returns from the dataset must not hang the program, which is about to fail anyway.
    have_ended ? thread.join() : thread.detach();
  }
}

Batch BatchWorkers::take() {
  const Scope scope(Scope::Kind::phase, "wait for batch");
  std::unique_lock lock(shared_->mutex);
  const std::int64_t number = shared_->next_to_take;
  auto& place = shared_->place(number);
  is_stuck_ = !wait_until(shared_->is_ready, lock, RunningTime::now() + timeout_, [&] { return place.is_ready; });
  TANDEM_CHECK(!is_stuck_, "batch ", number, " did not arrive within ", timeout_.count(),
               " s; the dataset is stuck while loading it: check its files, or raise the timeout");
  Shared::Place taken = std::exchange(place, {});
  ++shared_->next_to_take;
  shared_->has_room.notify_all();
  lock.unlock();
  if (taken.error) std::rethrow_exception(taken.error);
  return std::move(taken.batch);
}

}  // namespace tandem::data
