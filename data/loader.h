// Loader: returns a dataset in batches.
#pragma once

#include <tandem/core/base/temporarily.h>
#include <tandem/data/dataset.h>
#include <tandem/data/sampler.h>

#include <chrono>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

namespace tandem::data {

struct LoaderOptions {
  std::int64_t batch_size = 1;
  int workers = 0;   // threads; 0: the loop's thread makes the batches, as it always does for a data set on a GPU
  int prefetch = 2;  // batches that each worker makes ahead of time
  bool drop_last = false;
  std::int64_t max_batches = 0;  // limit for an epoch; 0: no limit
  // The longest wait for a batch from a worker. If the wait takes longer, an Error is thrown. A worker may then still
  // be inside the dataset's get(), so the dataset must live until that call has returned.
  std::chrono::seconds timeout{300};

  // The next three options are for a Loader without a given sampler. Each rank visits one shard of the dataset; the
  // shards of all ranks together contain every sample.
  Shard shard = {};
  bool shuffle = false;    // whether samples come in random order, a different one for each epoch number
  std::uint64_t seed = 0;  // the seed of the random order; must be equal on all ranks
};

// While a BatchLimit lives, loaders on this thread have at most this many batches per epoch, for a quick try of all
// parts of a program. Of two limits, the smaller one counts.
class BatchLimit {
 public:
  [[nodiscard]] explicit BatchLimit(std::int64_t batches);

 private:
  Temporarily<std::int64_t> limit_;
};

// One range-for loop is one epoch:
//
//   data::Loader loader(dataset, {.batch_size = 100, .shuffle = true});
//   for (int epoch = 0; epoch < 5; ++epoch)
//     for (auto& [images, labels] : loader) ...
//
// Each pass is the next epoch, counted from 0, unless epoch(number) sets another. The epoch decides the order if the
// loader shuffles, and the random numbers of samples: while a sample is made, default_generator() depends on the epoch,
// the sample's number and the number that begin() draws. It depends neither on the workers nor on the rank.
//
// Batches come in the sampler's order, with any number of workers. If the dataset throws an Error, the loop gets it at
// the batch to which it belongs, with the number of the sample. If the loop ends early, the workers stop. Like
// PyTorch's DataLoader, begin() draws one 64-bit number from default_generator(), so later random numbers are the same.
// The dataset and a given sampler must outlive the loader. Only one thread may use a loader, for one epoch at a time.
class Loader {
 public:
  // Uses a DistributedSampler with options.shard, options.shuffle and options.seed. As in PyTorch, all shards have the
  // same number of samples, and the last ones repeat some if the dataset can't be divided evenly.
  Loader(const Dataset& dataset, const LoaderOptions& options);
  // `sampler` decides which samples are visited; options.shard, options.shuffle and options.seed must have their
  // defaults.
  Loader(const Dataset& dataset, Sampler& sampler, const LoaderOptions& options);
  // A temporary data set would be destroyed before the loader reads it: give it a name.
  Loader(const Dataset&& dataset, const LoaderOptions& options) = delete;
  Loader(const Dataset&& dataset, Sampler& sampler, const LoaderOptions& options) = delete;

  // Makes the next pass epoch `number`, counted from 0; later passes continue from there. Returns this loader, for a
  // range-for loop. A given sampler learns the epoch only through this call.
  Loader& epoch(std::int64_t number) &;
  // A temporary loader would be destroyed before the loop begins: give it a name.
  Loader& epoch(std::int64_t number) && = delete;

  // The epoch of the next pass. A job that continues with this loader later saves this number.
  std::int64_t next_epoch() const { return next_epoch_; }

  // Batches per epoch.
  std::int64_t size() const;
  // Samples per epoch.
  std::int64_t samples() const;
  std::int64_t batch_size() const { return options_.batch_size; }
  const Dataset& dataset() const { return dataset_; }
  bool is_shard() const { return sampler_.is_shard(); }  // see Sampler::is_shard()

  // Omits the first `batches` batches of the next epoch, so that a job can resume in the middle of an epoch. If the
  // program drew random numbers for those batches, pass the state after them as `generator`: default_generator() is set
  // to it.
  void skip(std::int64_t batches, std::string generator = {}) {
    skip_ = batches;
    generator_ = std::move(generator);
  }

  // See Sampler::leave_out(). Throws an Error if the sampler doesn't support it. While samples are left out, a last
  // batch of one sample, which batch norms reject, is merged into the batch before it, because the program did not
  // choose the size of that rest.
  void leave_out(std::int64_t samples);

  class Iterator;
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  bool joins_last_sample() const;

  const Dataset& dataset_;
  std::unique_ptr<Sampler> own_sampler_;  // null if a sampler was given
  Sampler& sampler_;
  LoaderOptions options_;
  std::int64_t next_epoch_ = 0;
  std::int64_t skip_ = 0;
  bool is_rest_ = false;   // samples are left out
  std::string generator_;  // empty: the generator keeps its state
};

// Owns the running epoch and its threads. The batch that *iterator returns stays valid until ++iterator.
class Loader::Iterator {
 public:
  Iterator(Iterator&&) noexcept;
  ~Iterator();
  Batch& operator*() & { return batch_; }
  // Returns a value, so `auto& [x, y] = *loader.begin()` does not compile. It would refer to a destroyed batch.
  Batch operator*() && { return std::move(batch_); }
  Iterator& operator++();
  bool operator==(std::default_sentinel_t) const { return is_finished_; }

 private:
  friend class Loader;
  class Running;
  explicit Iterator(std::unique_ptr<Running> running);

  std::unique_ptr<Running> running_;
  Batch batch_;
  bool is_finished_ = false;
};

}  // namespace tandem::data
