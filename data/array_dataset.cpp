#include <tandem/data/array_dataset.h>

#include <tandem/core/ops.h>

#include <utility>

namespace tandem::data {

ArrayDataset::ArrayDataset(Array inputs, Array targets) : inputs_(std::move(inputs)), targets_(std::move(targets)) {
  TANDEM_CHECK(inputs_.defined() && inputs_.ndim() >= 1, "ArrayDataset: inputs must have a dimension for the samples");
  if (!targets_.defined()) return;
  TANDEM_CHECK(targets_.ndim() >= 1 && targets_.dim(0) == inputs_.dim(0), "ArrayDataset: inputs ", inputs_.shape(),
               " and targets ", targets_.shape(), " must have one row for each sample");
  TANDEM_CHECK(targets_.device() == inputs_.device(), "ArrayDataset: inputs are on ", inputs_.device(), ", targets on ",
               targets_.device());
}

Sample ArrayDataset::sample(std::int64_t index) const {
  TANDEM_CHECK(index >= 0 && index < size(), "ArrayDataset: sample ", index, " was asked for, there are ", size());
  return {inputs_.select(0, index).clone(), targets_.defined() ? targets_.select(0, index).clone() : Array()};
}

Batch ArrayDataset::get(std::span<const std::int64_t> indices) const {
  for (const auto index : indices)
    TANDEM_CHECK(index >= 0 && index < size(), "ArrayDataset: sample ", index, " was asked for, there are ", size());
  return gather(Array::from(indices, {static_cast<std::int64_t>(indices.size())}).to(device()));
}

ArrayDataset ArrayDataset::to(Device device) const {
  return ArrayDataset(inputs_.to(device), targets_.defined() ? targets_.to(device) : Array());
}

Batch ArrayDataset::gather(const Array& indices) const {
  return {ops::gather_rows(inputs_, indices), targets_.defined() ? ops::gather_rows(targets_, indices) : Array()};
}

}  // namespace tandem::data
