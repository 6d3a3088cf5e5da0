// Loader: gives a dataset in batches.
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
  int workers = 0;   // threads; 0: the thread of the loop makes the batches, as it does for a data set on a GPU
  int prefetch = 2;  // the number of batches that each worker makes in advance
  bool drop_last = false;
  std::int64_t max_batches = 0;  // an epoch ends after so many; 0: after all samples
  // The longest wait for a batch from a worker. After the Error of a longer one, a worker may still be inside the
  // dataset's get(). The dataset must live until that call has returned.
  std::chrono::seconds timeout{300};

  // These three are for a Loader that is given no sampler. Each rank visits one shard of the dataset; the shards of all
  // ranks together contain every sample.
  Shard shard = {};
  bool shuffle = false;    // whether the samples come in random order, another one for each epoch number
  std::uint64_t seed = 0;  // the seed of the random order; must be equal on all ranks
};

// While it lives, loaders of this thread have at most so many batches in an epoch: for a first look at all parts of a
// program. If there are two, the smaller number counts.
class BatchLimit {
 public:
  explicit BatchLimit(std::int64_t batches);

 private:
  Temporarily<std::int64_t> limit_;
};

// One range-for is one epoch:
//
//   data::Loader loader(dataset, {.batch_size = 100, .shuffle = true});
//   for (int epoch = 0; epoch < 5; ++epoch)
//     for (auto& [images, labels] : loader) ...
//
// Each pass is the next epoch, counted from 0, unless epoch(number) names another. The epoch decides the order where
// the loader shuffles, and the random numbers of samples: while a sample is made, default_generator() depends on the
// epoch, on the sample's number and on the number that begin() draws, and so neither on the workers nor on the rank.
//
// Batches come in the order of the sampler, with any number of workers. An Error of the dataset is thrown at the batch
// that it belongs to, with the number of the sample. When the loop is left early, the workers end. begin() draws one
// 64-bit number from default_generator(), as PyTorch's DataLoader does, so that the random numbers that are drawn later
// are the same. The dataset, and a sampler that is given, must outlive the loader. Only one thread may use a loader,
// for one epoch at a time.
class Loader {
 public:
  // With a DistributedSampler of its own, of options.shard, options.shuffle and options.seed: as with PyTorch's, all
  // shards have equally many samples, and the last ones repeat some where the dataset does not divide evenly.
  Loader(const Dataset& dataset, const LoaderOptions& options);
  // `sampler` decides what is visited; options.shard, options.shuffle and options.seed must be left as they are.
  Loader(const Dataset& dataset, Sampler& sampler, const LoaderOptions& options);
  // A data set that only this call names would be gone when the loader reads it: give it a name.
  Loader(const Dataset&& dataset, const LoaderOptions& options) = delete;
  Loader(const Dataset&& dataset, Sampler& sampler, const LoaderOptions& options) = delete;

  // The next pass is the epoch `number`, counted from 0, and later passes continue from there. Returns this loader, for
  // a range-for. A sampler that is given is told only here.
  Loader& epoch(std::int64_t number) &;
  // A loader without a name would be gone before the loop begins: give it one.
  Loader& epoch(std::int64_t number) && = delete;

  // The epoch of the next pass: what a job keeps that is to go on with this loader.
  std::int64_t next_epoch() const { return next_epoch_; }

  // Batches per epoch.
  std::int64_t size() const;
  // Samples per epoch.
  std::int64_t samples() const;
  std::int64_t batch_size() const { return options_.batch_size; }
  const Dataset& dataset() const { return dataset_; }
  bool is_shard() const { return sampler_.is_shard(); }  // as Sampler::is_shard()

  // The next epoch leaves out its first `batches` batches, so that a job can continue in the middle of an epoch. The
  // program may have drawn numbers for those batches: `generator` is the state that default_generator() then gets.
  void skip(std::int64_t batches, std::string generator = {}) {
    skip_ = batches;
    generator_ = std::move(generator);
  }

  // As Sampler::leave_out(). Error when the sampler can't. While samples are left out, a last batch of one sample,
  // which batch norms refuse, becomes a part of the batch before it, because the program did not choose how that rest
  // is divided.
  void leave_out(std::int64_t samples);

  class Iterator;
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  bool joins_last_sample() const;

  const Dataset& dataset_;
  std::unique_ptr<Sampler> own_sampler_;  // null where one was given
  Sampler& sampler_;
  LoaderOptions options_;
  std::int64_t next_epoch_ = 0;
  std::int64_t skip_ = 0;
  bool is_rest_ = false;   // samples are left out
  std::string generator_;  // empty: the generator keeps its state
};

// Owns the epoch that is running, and its threads. The batch that *iterator gives stays valid until ++iterator.
class Loader::Iterator {
 public:
  Iterator(Iterator&&) noexcept;
  ~Iterator();
  Batch& operator*() { return batch_; }
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
