// Epoch: one pass over a Loader.
#pragma once

#include <tandem/core/base/temporarily.h>
#include <tandem/core/random/random.h>

#include <cstdint>
#include <optional>

namespace tandem::data {

struct Epoch {
  std::int64_t number = 0;  // counted from 0
  std::uint64_t seed = 0;   // the number that Loader::begin() draws from default_generator()
};

// The epoch for which this thread is making samples, or nullopt outside of a Loader.
std::optional<Epoch> current_epoch();

// While an EpochScope lives, this thread makes samples for `epoch`.
class EpochScope {
 public:
  explicit EpochScope(const Epoch& epoch);

 private:
  Temporarily<std::optional<Epoch>> epoch_;
};

// While a SampleGenerator lives within an epoch, this thread's default_generator() draws numbers that depend only on
// the epoch and on `sample`. A sample is therefore the same with any number of workers. Afterwards the generator's
// earlier state is restored. Outside of an epoch nothing changes.
class SampleGenerator {
 public:
  explicit SampleGenerator(std::int64_t sample);

 private:
  std::optional<Temporarily<Generator>> generator_;
};

// The last epoch that this thread started with a Loader that shuffles and takes one of several shards. Its seed is
// LoaderOptions::seed. Before the first such epoch, the number is -1. Loaders write it. DistributedDataParallel checks
// that all ranks have the same number and seed.
Epoch& last_sharded_epoch();

}  // namespace tandem::data
