// Data sets of single samples, and transforms of samples.
#pragma once

#include <tandem/data/dataset.h>

#include <array>
#include <functional>
#include <memory>
#include <vector>

namespace tandem::data {

struct Sample {
  Array input;                   // for example an image (C, H, W)
  Array target;                  // for example a class () or a mask (H, W)
  std::vector<Array> more = {};  // becomes Batch::more; all samples must have the same number of arrays
};

// To write your own data set, define size() and sample().
//
//   class Squares : public data::SampleDataset {
//     std::int64_t size() const override { return 100; }
//     data::Sample sample(std::int64_t i) const override { ... }
//   };
//
// sample() may be called from several threads at once. Its draws from default_generator() differ for each sample and
// epoch of a Loader, and are the same with any number of workers.
class SampleDataset : public Dataset {
 public:
  virtual Sample sample(std::int64_t index) const = 0;
  // Makes a batch of one or more samples. The default stacks them, which needs equal shapes and dtypes. Override it to
  // pad sequences, for example.
  virtual Batch collate(std::span<const Sample> samples) const;
  Batch get(std::span<const std::int64_t> indices) const override;
};

// Stacks N arrays (...) of the same shape and dtype -> (N, ...). Images (C, H, W) become a channels-last batch (N, C,
// H, W). Throws an Error if shapes or dtypes differ.
Array stack_samples(std::span<const Array> arrays);

// The random numbers of one sample in one epoch. They are a pure function of (seed, epoch, index), so a sample depends
// neither on the number of workers nor on the number of ranks. The generator is Philox (core/random/philox.h).
class SampleRandom {
 public:
  SampleRandom(std::uint64_t seed, std::int64_t index);  // uses the Loader's current epoch, or 0 outside of a Loader
  SampleRandom(std::uint64_t seed, std::int64_t epoch, std::int64_t index);
  double uniform();                         // [0, 1), 32 bits
  double uniform(double low, double high);  // [low, high)
  std::int64_t below(std::int64_t n);       // 0 .. n-1
  bool chance(double probability) { return uniform() < probability; }

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> words_{};
  int used_ = 4;
};

using Transform = std::function<Sample(Sample, SampleRandom&)>;

// The samples of another data set after `transforms`, which run in order. Each epoch of a Loader has different random
// numbers. collate() of the other data set makes the batches.
class Transformed : public SampleDataset {
 public:
  // `dataset` must outlive this object.
  Transformed(const SampleDataset& dataset, std::vector<Transform> transforms, std::uint64_t seed = 0);
  Transformed(const SampleDataset&& dataset, std::vector<Transform> transforms, std::uint64_t seed = 0) = delete;
  std::int64_t size() const override { return dataset_.size(); }
  Sample sample(std::int64_t index) const override;
  Batch collate(std::span<const Sample> samples) const override { return dataset_.collate(samples); }

 private:
  const SampleDataset& dataset_;
  std::vector<Transform> transforms_;
  std::uint64_t seed_;
};

}  // namespace tandem::data
