// Samplers: which samples of a dataset an epoch visits, in which order.
#pragma once

#include <cstdint>
#include <vector>

namespace tandem::data {

// Not for several threads at once. The sizes are plain integers: a sampler knows nothing of datasets or
// process groups.
class Sampler {
 public:
  virtual ~Sampler() = default;
  // The samples of one epoch, in order. Called once per epoch.
  virtual std::vector<std::int64_t> indices() = 0;
  // The number of samples of one epoch.
  virtual std::int64_t size() const = 0;
  // The epoch that comes next, from 0: for samplers whose order is a function of it.
  virtual void set_epoch(std::int64_t) {}
  // From now on the first `samples` samples of an epoch, of all shards together, are left out, and the others are
  // redistributed over the shards. A job can then continue in the middle of an epoch with a different number of
  // processes. False when the sampler can't.
  virtual bool leave_out(std::int64_t samples) { return samples == 0; }
  // Whether the ranks of a job divide the samples of one data set among them.
  virtual bool is_shard() const { return false; }
};

// Which part of the samples a process takes: it is number `rank` of `world` processes.
struct Shard {
  int rank = 0;
  int world = 1;
};

// A new permutation each epoch, seeded with 64 bits from default_generator(): after manual_seed(s), a Loader
// with this sampler visits samples in the order of PyTorch's DataLoader(shuffle=True).
class RandomSampler : public Sampler {
 public:
  explicit RandomSampler(std::int64_t dataset_size);
  std::vector<std::int64_t> indices() override;
  std::int64_t size() const override { return dataset_size_; }

 private:
  std::int64_t dataset_size_;
};

struct DistributedSamplerOptions {
  int rank = 0;
  int world = 1;
  bool shuffle = true;
  std::uint64_t seed = 0;  // equal on all ranks
  bool drop_last = false;
};

// Every world-th sample, from `rank` on: torch.utils.data.DistributedSampler, bit for bit. All ranks get equally many:
// the list is padded with samples from its beginning, or cut with drop_last.
class DistributedSampler : public Sampler {
 public:
  DistributedSampler(std::int64_t dataset_size, const DistributedSamplerOptions& options);
  // Chooses the order of an epoch. All ranks get the same order. To be called before each epoch, which Loader::epoch()
  // does.
  void set_epoch(std::int64_t epoch) override { epoch_ = epoch; }
  bool leave_out(std::int64_t samples) override;
  bool is_shard() const override { return options_.world > 1; }
  std::vector<std::int64_t> indices() override;
  std::int64_t size() const override;

 private:
  std::int64_t dataset_size_;
  DistributedSamplerOptions options_;
  std::int64_t epoch_ = 0;
  std::int64_t left_out_ = 0;
};

// Visits all samples of the dataset in the order of their numbers: 0, 1, ..., dataset_size - 1.
class SequentialSampler : public DistributedSampler {
 public:
  explicit SequentialSampler(std::int64_t dataset_size) : DistributedSampler(dataset_size, {.shuffle = false}) {}
  // Every rank may visit all of them.
  bool leave_out(std::int64_t samples) override { return Sampler::leave_out(samples); }
};

// Every world-th sample, from `rank` on, in order, no padding: each sample is on exactly one rank, so that
// sums over all ranks (counts, metrics) are exact. Ranks may differ in size by one; a rank may have none.
class ExactSampler : public Sampler {
 public:
  ExactSampler(std::int64_t dataset_size, int rank, int world);
  bool is_shard() const override { return world_ > 1; }
  std::vector<std::int64_t> indices() override;
  std::int64_t size() const override;

 private:
  std::int64_t dataset_size_;
  int rank_;
  int world_;
};

}  // namespace tandem::data
