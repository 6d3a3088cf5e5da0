// Data sets made of others, which must outlive them.
#pragma once

#include <tandem/data/dataset.h>

#include <tandem/core/random/random.h>

#include <vector>

namespace tandem::data {

// The samples of `dataset` that `indices` names, in that order.
class Subset : public Dataset {
 public:
  Subset(const Dataset& dataset, std::vector<std::int64_t> indices);
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  Batch get(std::span<const std::int64_t> indices) const override;
  Device device() const override { return dataset_->device(); }
  Batch gather(const Array& indices) const override;

  const std::vector<std::int64_t>& indices() const { return indices_; }

 private:
  const Dataset* dataset_;
  std::vector<std::int64_t> indices_;
  Array on_device_;  // the same, where the data set lies
};

// Random parts of `dataset` of the given sizes, whose sum is its size: torch.utils.data.random_split to the bit.
std::vector<Subset> random_split(const Dataset& dataset, const std::vector<std::int64_t>& sizes,
                                 Generator& generator = default_generator());
// The same with fractions whose sum is 1; what is left by rounding down goes to the first parts, one each.
std::vector<Subset> random_split(const Dataset& dataset, const std::vector<double>& fractions,
                                 Generator& generator = default_generator());

// One data set after the other. Their samples have the same shapes. On the host.
class ConcatDataset : public Dataset {
 public:
  explicit ConcatDataset(std::vector<const Dataset*> datasets);
  std::int64_t size() const override { return ends_.back(); }
  Batch get(std::span<const std::int64_t> indices) const override;

 private:
  std::vector<const Dataset*> datasets_;
  std::vector<std::int64_t> ends_;  // one past the last sample of each
};

}  // namespace tandem::data
