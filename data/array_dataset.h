// ArrayDataset: samples are the rows of Arrays in memory.
#pragma once

#include <tandem/data/sample_dataset.h>

#include <utility>
#include <vector>

namespace tandem::data {

// Like PyTorch's TensorDataset: inputs (N, ...), targets (N, ...) or undefined, and any number of `more` arrays (N,
// ...). Sample i is row i of each. A whole batch is gathered in one pass, on the device of the arrays.
class ArrayDataset : public SampleDataset {
 public:
  explicit ArrayDataset(Array inputs, Array targets = {}, std::vector<Array> more = {})
      : ArrayDataset(Batch{std::move(inputs), std::move(targets), std::move(more)}) {}
  explicit ArrayDataset(Batch rows);

  std::int64_t size() const override { return rows_.inputs.dim(0); }
  Sample sample(std::int64_t index) const override;
  Batch get(std::span<const std::int64_t> indices) const override;
  ArrayDataset to(Device device) const { return ArrayDataset(rows_.to(device)); }
  Device device() const override { return rows_.inputs.device(); }
  Batch gather(const Array& indices) const override;

  const Array& inputs() const { return rows_.inputs; }
  const Array& targets() const { return rows_.targets; }

 private:
  Batch rows_;
};

}  // namespace tandem::data
