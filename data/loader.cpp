#include <tandem/data/loader.h>

#include <tandem/core/base/check.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/base/temporarily.h>
#include <tandem/core/random/random.h>
#include <tandem/data/batch_workers.h>
#include <tandem/data/epoch.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

namespace tandem::data {
namespace {

using Indices = std::span<const std::int64_t>;

thread_local std::int64_t batch_limit = std::numeric_limits<std::int64_t>::max();

// Loads the samples of a failed batch one by one, to name the faulty sample.
[[noreturn]] void name_sample(const Dataset& dataset, Indices indices, std::int64_t number, const std::string& reason) {
  for (const auto index : indices) {
    try {
      dataset.get({&index, 1});
    } catch (const std::exception& error) {
      detail::fail("loading sample ", index, " (batch ", number, ") failed: ", error.what());
    }
  }
  std::ostringstream list;
  for (const auto index : indices) list << ' ' << index;
  detail::fail("loading batch ", number, " failed, although each of its samples loads separately: ", reason,
               "; samples:", list.str());
}

// If `is_over`, no thread takes the batch any more, and the dataset may have been destroyed.
Batch load(const Dataset& dataset, Indices indices, const Epoch& epoch, std::int64_t number,
           const std::atomic<bool>& is_over) {
  Scope scope(Scope::Kind::phase, "load batch");
  scope.note("batch", number);
  const EpochScope of_epoch(epoch);
  const SampleGenerator of_sample(indices.front());  // a SampleDataset has one for each sample
  try {
    return dataset.get(indices);
  } catch (const std::exception& error) {
    if (is_over) throw;
    name_sample(dataset, indices, number, error.what());
  }
}

void check(const LoaderOptions& options) {
  TANDEM_CHECK(options.batch_size >= 1, "Loader: batch_size must be at least 1, got ", options.batch_size);
  TANDEM_CHECK(options.workers >= 0, "Loader: workers must be at least 0 (0: no threads), got ", options.workers);
  TANDEM_CHECK(options.workers == 0 || options.prefetch >= 1, "Loader: prefetch must be at least 1, got ",
               options.prefetch);
  TANDEM_CHECK(options.max_batches >= 0, "Loader: max_batches must be at least 0 (0: all), got ", options.max_batches);
  TANDEM_CHECK(options.timeout.count() >= 1, "Loader: timeout must be at least 1 s, got ", options.timeout.count());
}

// The samples of one epoch in order, and their division into batches. The last batch has the rest.
struct Order {
  const Dataset& dataset;
  const Epoch epoch;
  const std::vector<std::int64_t> indices;
  const std::int64_t batch_size, batches;
  mutable std::atomic<bool> is_over{false};  // the loop over the epoch has ended

  Batch batch(std::int64_t number) const {
    const std::int64_t begin = number * batch_size;
    const auto count = static_cast<std::size_t>(end(number) - begin);
    return load(dataset, Indices(indices).subspan(static_cast<std::size_t>(begin), count), epoch, number, is_over);
  }

  std::int64_t end(std::int64_t number) const {
    const std::int64_t all = std::ssize(indices);
    return number + 1 == batches ? all : std::min((number + 1) * batch_size, all);
  }
};

}  // namespace

BatchLimit::BatchLimit(std::int64_t batches) : limit_(batch_limit, std::min(batch_limit, batches)) {
  TANDEM_CHECK(batches >= 1, "BatchLimit: expected at least 1 batch, got ", batches);
}

class Loader::Iterator::Running : NoCopy {
 public:
  Running(const Dataset& dataset, const Epoch& epoch, std::vector<std::int64_t> indices, const LoaderOptions& options,
          std::int64_t batches)
      : batches_(batches), order_(new const Order{dataset, epoch, std::move(indices), options.batch_size, batches}) {
    if (!dataset.device().is_cpu()) {
      on_device_ = dataset.numbers(order_->indices);  // checked here, because the device would report an error only
                                                      // later
    } else if (options.workers > 0) {
      const int threads = static_cast<int>(std::min<std::int64_t>(options.workers, batches));
      workers_.emplace([order = order_](std::int64_t number) { return order->batch(number); }, batches, threads,
                       options.workers * options.prefetch, options.timeout);
    }
  }

  ~Running() { order_->is_over = true; }

  // Moves the next batch into `batch`. Returns false after the last batch.
  bool next(Batch& batch) {
    if (next_ == batches_) return false;
    const std::int64_t number = next_++;
    if (on_device_.defined()) {
      batch = order_->dataset.gather(on_device_.slice(0, number * order_->batch_size, order_->end(number)));
    } else {
      batch = workers_ ? workers_->take() : order_->batch(number);
    }
    return true;
  }

 private:
  const std::int64_t batches_;
  std::int64_t next_ = 0;
  const std::shared_ptr<const Order> order_;  // the workers own it too
  Array on_device_;                           // the samples' numbers, if the dataset is on a GPU
  std::optional<BatchWorkers> workers_;
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
               "Loader: the given sampler decides the order, so don't set shard, shuffle or seed");
}

Loader& Loader::epoch(std::int64_t number) & {
  TANDEM_CHECK(number >= 0, "Loader: epochs are counted from 0, got ", number);
  next_epoch_ = number;
  sampler_.set_epoch(number);
  return *this;
}

bool Loader::joins_last_sample() const {
  return is_rest_ && !options_.drop_last && sampler_.size() > 1 && sampler_.size() % options_.batch_size == 1;
}

std::int64_t Loader::size() const {
  const std::int64_t samples = sampler_.size();
  const bool has_short = !options_.drop_last && samples % options_.batch_size != 0 && !joins_last_sample();
  const std::int64_t all = samples / options_.batch_size + has_short;
  return std::min({all, batch_limit, options_.max_batches > 0 ? options_.max_batches : all});
}

std::int64_t Loader::samples() const {
  const std::int64_t samples = sampler_.size(), in_batches = size() * options_.batch_size;
  return joins_last_sample() && in_batches + 1 == samples ? samples : std::min(in_batches, samples);
}

void Loader::leave_out(std::int64_t samples) {
  TANDEM_CHECK(sampler_.leave_out(samples), "Loader: this sampler can't leave out the first ", samples,
               " samples of an epoch");
  is_rest_ = samples > 0;
}

Loader::Iterator Loader::begin() {
  const Epoch epoch{next_epoch_++, default_generator().next_u64()};
  if (own_sampler_) own_sampler_->set_epoch(epoch.number);
  if (options_.shuffle && options_.shard.world > 1) last_sharded_epoch() = {epoch.number, options_.seed};
  auto indices = sampler_.indices();
  TANDEM_CHECK(skip_ >= 0, "Loader: can't skip ", skip_, " batches");
  const std::int64_t skipped = std::min(std::exchange(skip_, 0), size());
  const auto given = static_cast<std::int64_t>(indices.size());
  indices.resize(static_cast<std::size_t>(std::min(samples(), given)));
  indices.erase(indices.begin(), indices.begin() + std::min(skipped * options_.batch_size, std::ssize(indices)));
  if (const auto state = std::exchange(generator_, {}); !state.empty()) default_generator().set_state(state);
  return Iterator(std::make_unique<Iterator::Running>(dataset_, epoch, std::move(indices), options_, size() - skipped));
}

Loader::Iterator::Iterator(std::unique_ptr<Running> running) : running_(std::move(running)) { ++*this; }
Loader::Iterator::Iterator(Iterator&&) noexcept = default;
Loader::Iterator::~Iterator() = default;

Loader::Iterator& Loader::Iterator::operator++() {
  batch_ = {};  // allows the next batch to reuse its memory
  is_finished_ = !running_->next(batch_);
  return *this;
}

}  // namespace tandem::data
