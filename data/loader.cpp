#include <tandem/data/loader.h>

#include <tandem/core/base/check.h>
#include <tandem/core/profile/profile.h>
#include <tandem/core/random/random.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

namespace tandem::data {
namespace {

using Indices = std::span<const std::int64_t>;

// Loads the samples of a failed batch one by one, to name the sample that is at fault.
[[noreturn]] void fail(const Dataset& dataset, Indices indices, std::int64_t number, const std::string& reason) {
  for (const auto index : indices) {
    try {
      dataset.get({&index, 1});
    } catch (const std::exception& error) {
      detail::fail("loading sample ", index, " (batch ", number, ") failed: ", error.what());
    }
  }
  std::ostringstream list;
  for (const auto index : indices) list << ' ' << index;
  detail::fail("loading batch ", number, " failed, though each of its samples loads alone: ", reason,
               "; samples:", list.str());
}

Batch load(const Dataset& dataset, Indices indices, std::int64_t number) {
  ProfileRange range("load batch");
  range.note("batch", number);
  try {
    return dataset.get(indices);
  } catch (const std::exception& error) {
    fail(dataset, indices, number, error.what());
  }
}

void check(const LoaderOptions& options) {
  TANDEM_CHECK(options.batch_size >= 1, "Loader: batch_size must be at least 1, got ", options.batch_size);
  TANDEM_CHECK(options.workers >= 0, "Loader: workers must be at least 0 (0: no threads), got ", options.workers);
  TANDEM_CHECK(options.workers == 0 || options.prefetch >= 1, "Loader: prefetch must be at least 1, got ",
               options.prefetch);
  TANDEM_CHECK(options.timeout.count() >= 1, "Loader: timeout must be at least 1 s, got ", options.timeout.count());
}

// The state that the consumer and the workers share. Batch k stands in slot k modulo the number of slots, from the
// moment when a worker has made it until the consumer takes it. The workers own this state too, so that a worker that
// is stuck in the dataset can be left behind.
struct Work {
  struct Slot {
    Batch batch;
    std::exception_ptr error;
    bool is_ready = false;
  };

  Work(const Dataset& dataset, std::vector<std::int64_t> indices, const LoaderOptions& options, std::int64_t batches)
      : dataset(dataset),
        indices(std::move(indices)),
        batch_size(options.batch_size),
        batches(batches),
        slots(static_cast<std::size_t>(options.workers) * static_cast<std::size_t>(options.prefetch)) {}

  const Dataset& dataset;
  const std::vector<std::int64_t> indices;
  const std::int64_t batch_size;
  const std::int64_t batches;

  std::mutex mutex;  // guards all members below
  std::condition_variable is_ready;
  std::condition_variable has_room;
  std::condition_variable has_ended;
  std::vector<Slot> slots;
  std::int64_t next_to_make = 0;
  std::int64_t next_to_take = 0;
  int running = 0;
  bool is_stopped = false;

  Slot& slot(std::int64_t number) { return slots[static_cast<std::size_t>(number) % slots.size()]; }

  Indices indices_of(std::int64_t number) const {
    const auto begin = static_cast<std::size_t>(number * batch_size);
    return Indices(indices).subspan(begin, std::min(static_cast<std::size_t>(batch_size), indices.size() - begin));
  }

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      has_room.wait(lock, [&] {
        return is_stopped || next_to_make == batches ||
               next_to_make < next_to_take + static_cast<std::int64_t>(slots.size());
      });
      if (is_stopped || next_to_make == batches) break;
      const std::int64_t number = next_to_make++;
      lock.unlock();
      Slot made;
      try {
        made.batch = load(dataset, indices_of(number), number);
      } catch (...) {
        made.error = std::current_exception();
      }
      made.is_ready = true;
      lock.lock();
      slot(number) = std::move(made);
      is_ready.notify_one();
    }
    --running;
    has_ended.notify_one();
  }
};

}  // namespace

class Loader::Iterator::Epoch {
 public:
  Epoch(const Dataset& dataset, std::vector<std::int64_t> indices, const LoaderOptions& options, std::int64_t batches)
      : options_(options), work_(std::make_shared<Work>(dataset, std::move(indices), options, batches)) {
    if (!dataset.device().is_cpu()) {
      order_ = order_on_device();
      return;
    }
    for (int i = 0; i < options.workers && i < batches; ++i) {
      {
        std::lock_guard lock(work_->mutex);
        ++work_->running;
      }
      threads_.emplace_back([work = work_] {
        Profile::name_thread("loader");
        work->run();
      });
    }
  }

  ~Epoch() {
    std::unique_lock lock(work_->mutex);
    work_->is_stopped = true;
    work_->has_room.notify_all();
    const bool have_ended = work_->has_ended.wait_for(lock, is_stuck_ ? std::chrono::seconds(0) : options_.timeout,
                                                      [&] { return work_->running == 0; });
    lock.unlock();
    for (auto& thread : threads_) {
      // A worker that never comes back from the dataset must not hang the program, which is about to fail anyway.
      have_ended ? thread.join() : thread.detach();
    }
  }

  // Puts the next batch into `batch`. False after the last batch.
  bool next(Batch& batch) {
    const std::int64_t number = work_->next_to_take;
    if (number == work_->batches) return false;
    if (order_.defined()) {
      ++work_->next_to_take;
      const std::int64_t begin = number * options_.batch_size;
      batch = work_->dataset.gather(order_.slice(0, begin, std::min(begin + options_.batch_size, order_.dim(0))));
      return true;
    }
    if (threads_.empty()) {
      ++work_->next_to_take;
      batch = load(work_->dataset, work_->indices_of(number), number);
      return true;
    }
    const ProfileRange range("wait for batch");
    std::unique_lock lock(work_->mutex);
    auto& slot = work_->slot(number);
    is_stuck_ = !work_->is_ready.wait_for(lock, options_.timeout, [&] { return slot.is_ready; });
    TANDEM_CHECK(!is_stuck_, "batch ", number, " has not arrived for ", options_.timeout.count(),
                 " s; the dataset is stuck in it: check where its files lie, or raise the timeout");
    const Work::Slot taken = std::exchange(slot, {});
    ++work_->next_to_take;
    work_->has_room.notify_all();
    lock.unlock();
    if (taken.error) std::rethrow_exception(taken.error);
    batch = taken.batch;
    return true;
  }

 private:
  // The numbers of all samples of the epoch, on the device. They are checked here, because the device would report an
  // error only later.
  Array order_on_device() const {
    const Dataset& dataset = work_->dataset;
    const auto& indices = work_->indices;
    for (const auto index : indices)
      TANDEM_CHECK(index >= 0 && index < dataset.size(), "the sampler asks for sample ", index, ", there are ",
                   dataset.size());
    return Array::from(indices, {static_cast<std::int64_t>(indices.size())}).to(dataset.device());
  }

  const LoaderOptions options_;
  std::shared_ptr<Work> work_;
  Array order_;  // the numbers of the epoch's samples, when the data set lies on a GPU
  std::vector<std::thread> threads_;
  bool is_stuck_ = false;
};

Loader::Loader(const Dataset& dataset, const LoaderOptions& options)
    : dataset_(dataset),
      own_sampler_(
          std::make_unique<DistributedSampler>(dataset.size(), DistributedSamplerOptions{.rank = options.shard.rank,
                                                                                         .world = options.shard.world,
                                                                                         .shuffle = options.shuffle,
                                                                                         .seed = options.seed})),
      sampler_(*own_sampler_),
      options_(options) {
  check(options);
}

Loader::Loader(const Dataset& dataset, Sampler& sampler, const LoaderOptions& options)
    : dataset_(dataset), sampler_(sampler), options_(options) {
  check(options);
  TANDEM_CHECK(options.shard.rank == 0 && options.shard.world == 1 && !options.shuffle && options.seed == 0,
               "Loader: the sampler that is given decides the order; leave shard, shuffle and seed to it");
}

Loader& Loader::epoch(std::int64_t number) {
  TANDEM_CHECK(number >= 0, "Loader: epochs are counted from 0, got ", number);
  sampler_.set_epoch(number);
  return *this;
}

std::int64_t Loader::size() const {
  const std::int64_t samples = sampler_.size();
  return options_.drop_last ? samples / options_.batch_size
                            : samples / options_.batch_size + (samples % options_.batch_size != 0);
}

std::int64_t Loader::samples() const { return options_.drop_last ? size() * options_.batch_size : sampler_.size(); }

Loader::Iterator Loader::begin() {
  default_generator().next_u64();
  auto indices = sampler_.indices();
  TANDEM_CHECK(skip_ >= 0, "Loader: can't skip ", skip_, " batches");
  const std::int64_t skipped = std::min(std::exchange(skip_, 0), size());
  indices.erase(indices.begin(),
                indices.begin() + std::min(skipped * options_.batch_size, static_cast<std::int64_t>(indices.size())));
  if (const auto state = std::exchange(generator_, {}); !state.empty()) default_generator().set_state(state);
  return Iterator(std::make_unique<Iterator::Epoch>(dataset_, std::move(indices), options_, size() - skipped));
}

Loader::Iterator::Iterator(std::unique_ptr<Epoch> epoch) : epoch_(std::move(epoch)) { ++*this; }
Loader::Iterator::Iterator(Iterator&&) noexcept = default;
Loader::Iterator::~Iterator() = default;

Loader::Iterator& Loader::Iterator::operator++() {
  batch_ = {};  // so that the next batch can use its memory
  is_finished_ = !epoch_->next(batch_);
  return *this;
}

}  // namespace tandem::data
