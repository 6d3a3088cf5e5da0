#include <tandem/data/epoch.h>
#include <tandem/data/sample_dataset.h>

#include <tandem/core/random/random.h>

#include <utility>

namespace tandem::data {

Array stack_samples(std::span<const Array> arrays) {
  TANDEM_CHECK(!arrays.empty(), "a batch needs at least one sample");
  const Array& first = arrays.front();
  Shape shape{static_cast<std::int64_t>(arrays.size())};
  for (const auto size : first.shape()) shape.push_back(size);
  Array batch =
      shape.ndim() == 4 ? Array::empty_channels_last(shape, first.dtype()) : Array::empty(shape, first.dtype());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    TANDEM_CHECK(arrays[i].shape() == first.shape() && arrays[i].dtype() == first.dtype(),
                 "the samples of a batch differ: the first is ", first.shape(), ' ', first.dtype(), ", the one at ", i,
                 " is ", arrays[i].shape(), ' ', arrays[i].dtype(),
                 "; give them the same size with a transform (resize, crop, pad), or override collate()");
    batch.select(0, static_cast<std::int64_t>(i)).copy_from(arrays[i]);
  }
  return batch;
}

Batch SampleDataset::collate(std::span<const Sample> samples) const {
  std::vector<Array> inputs, targets;
  for (const Sample& sample : samples) {
    inputs.push_back(sample.input);
    if (sample.target.defined()) targets.push_back(sample.target);
  }
  TANDEM_CHECK(targets.empty() || targets.size() == samples.size(), "of the ", samples.size(), " samples of a batch, ",
               targets.size(), " have a target: either all or none must have one");
  Batch batch{stack_samples(inputs), targets.empty() ? Array() : stack_samples(targets)};
  for (std::size_t k = 0; k < samples.front().more.size(); ++k) {
    std::vector<Array> arrays;
    for (const Sample& sample : samples) {
      TANDEM_CHECK(sample.more.size() == samples.front().more.size(), "the samples of a batch differ: one has ",
                   samples.front().more.size(), " arrays in `more`, another has ", sample.more.size());
      arrays.push_back(sample.more[k]);
    }
    batch.more.push_back(stack_samples(arrays));
  }
  return batch;
}

Batch SampleDataset::get(std::span<const std::int64_t> indices) const {
  std::vector<Sample> samples;
  for (const auto index : indices) {
    check_number(index);
    const SampleGenerator generator(index);
    samples.push_back(sample(index));
  }
  return collate(samples);
}

SampleRandom::SampleRandom(std::uint64_t seed, std::int64_t index)
    : SampleRandom(seed, current_epoch().value_or(Epoch{}).number, index) {}
SampleRandom::SampleRandom(std::uint64_t seed, std::int64_t epoch, std::int64_t index)
    : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
      counter_{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
               static_cast<std::uint32_t>(epoch), 0} {}

double SampleRandom::uniform() {
  if (used_ == 4) {
    words_ = philox(counter_, key_);
    ++counter_[3];
    used_ = 0;
  }
  return words_[static_cast<std::size_t>(used_++)] * 0x1p-32;
}

double SampleRandom::uniform(double low, double high) { return low + (high - low) * uniform(); }

std::int64_t SampleRandom::below(std::int64_t n) {
  TANDEM_CHECK(n > 0, "SampleRandom::below: n must be above 0, got ", n);
  return static_cast<std::int64_t>(uniform() * static_cast<double>(n));
}

Transformed::Transformed(const SampleDataset& dataset, std::vector<Transform> transforms, std::uint64_t seed)
    : dataset_(dataset), transforms_(std::move(transforms)), seed_(seed) {
  for (const Transform& transform : transforms_)
    TANDEM_CHECK(transform, "Transformed: a transform is an empty function");
}

Sample Transformed::sample(std::int64_t index) const {
  SampleRandom random(seed_, index);
  Sample sample = dataset_.sample(index);
  for (const Transform& transform : transforms_) sample = transform(std::move(sample), random);
  return sample;
}

}  // namespace tandem::data
