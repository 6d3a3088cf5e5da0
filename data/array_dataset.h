// ArrayDataset: samples that are the rows of Arrays in memory.
#pragma once

#include <tandem/data/sample_dataset.h>

namespace tandem::data {

// PyTorch's TensorDataset: inputs (N, ...), and targets (N, ...) or undefined. Sample i is row i of both. A whole batch
// is gathered in one pass, on the device of the arrays.
class ArrayDataset : public SampleDataset {
 public:
  explicit ArrayDataset(Array inputs, Array targets = {});

  std::int64_t size() const override { return inputs_.dim(0); }
  Sample sample(std::int64_t index) const override;
  Batch get(std::span<const std::int64_t> indices) const override;
  ArrayDataset to(Device device) const;
  Device device() const override { return inputs_.device(); }
  Batch gather(const Array& indices) const override;

  const Array& inputs() const { return inputs_; }
  const Array& targets() const { return targets_; }

 private:
  Array inputs_, targets_;
};

}  // namespace tandem::data
