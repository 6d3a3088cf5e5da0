// Epoch: one pass over a Loader, as the samples that it makes see it.
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

// The epoch for which this thread makes samples now. Empty outside of a Loader.
std::optional<Epoch> current_epoch();

// While one lives, this thread makes samples for `epoch`.
class EpochScope {
 public:
  explicit EpochScope(const Epoch& epoch);

 private:
  Temporarily<std::optional<Epoch>> epoch_;
};

// While one lives within an epoch, default_generator() of this thread draws numbers that are a function of the epoch
// and of `sample`. So a sample is the same with any number of workers. Afterwards it goes on as if nothing had been
// drawn. Outside of an epoch nothing changes.
class SampleGenerator {
 public:
  explicit SampleGenerator(std::int64_t sample);

 private:
  std::optional<Temporarily<Generator>> generator_;
};

// The number of the epoch that this thread began last over a Loader that shuffles and takes one shard of several. All
// ranks must be in the same one: DistributedDataParallel compares it. -1 before the first one.
std::int64_t last_sharded_epoch();
void set_last_sharded_epoch(std::int64_t number);

}  // namespace tandem::data
