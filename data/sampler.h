// Samplers choose which samples of a dataset an epoch visits, and in which order.
#pragma once

#include <cstdint>
#include <vector>

namespace tandem::data {

// Not thread-safe. Sizes are plain integers, because a sampler does not depend on datasets or process groups.
class Sampler {
 public:
  virtual ~Sampler() = default;
  // Returns the samples of one epoch, in order. Called once per epoch.
  virtual std::vector<std::int64_t> indices() = 0;
  // The number of samples in one epoch.
  virtual std::int64_t size() const = 0;
  // Sets the epoch that comes next, counted from 0. Samplers whose order depends on the epoch override this.
  virtual void set_epoch(std::int64_t) {}
  // From now on, omits the first `samples` samples of an epoch, counted over all shards, and redistributes the others
  // over the shards. A job can then resume in the middle of an epoch with a different number of processes. Returns
  // false if the sampler doesn't support this.
  virtual bool leave_out(std::int64_t samples) { return samples == 0; }
  // Returns whether the ranks of a job divide the samples of one data set among themselves.
  virtual bool is_shard() const { return false; }
};

// The part of the samples that a process takes: it is number `rank` of `world` processes.
struct Shard {
  int rank = 0;
  int world = 1;
};

// A new permutation each epoch, seeded with 64 bits from default_generator(). After manual_seed(s), a Loader with this
// sampler visits samples in the same order as PyTorch's DataLoader(shuffle=True).
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
  std::uint64_t seed = 0;  // must be equal on all ranks
  bool drop_last = false;
};

// Every world-th sample, starting with `rank`: torch.utils.data.DistributedSampler, bit for bit. All ranks get the same
// number of samples: the list is padded with samples from its beginning, or truncated with drop_last.
class DistributedSampler : public Sampler {
 public:
  DistributedSampler(std::int64_t dataset_size, const DistributedSamplerOptions& options);
  // Chooses the order of an epoch. All ranks get the same order. Call it before each epoch; Loader::epoch() does.
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

// Visits all samples of the dataset in order: 0, 1, ..., dataset_size - 1.
class SequentialSampler : public DistributedSampler {
 public:
  explicit SequentialSampler(std::int64_t dataset_size) : DistributedSampler(dataset_size, {.shuffle = false}) {}
  // Every rank visits all samples.
  bool leave_out(std::int64_t samples) override { return Sampler::leave_out(samples); }
};

// Every world-th sample, starting with `rank`, in order and without padding. Each sample is on exactly one rank, so
// sums over all ranks (counts, metrics) are exact. The sizes of the ranks may differ by one, and a rank may have no
// samples.
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
