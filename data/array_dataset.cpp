#include <tandem/data/array_dataset.h>

#include <tandem/core/ops.h>

namespace tandem::data {

ArrayDataset::ArrayDataset(Batch rows) : rows_(std::move(rows)) {
  const Array& inputs = rows_.inputs;
  TANDEM_CHECK(inputs.defined() && inputs.ndim() >= 1, "ArrayDataset: inputs must have shape (N, ...)");
  for (const Array& array : rows_.more)
    TANDEM_CHECK(array.defined(),
                 "ArrayDataset: an array of `more` is undefined: each must have one row for each sample");
  rows_.map([&](const Array& array) {
    TANDEM_CHECK(array.ndim() >= 1 && array.dim(0) == inputs.dim(0), "ArrayDataset: inputs ", inputs.shape(),
                 " and the array ", array.shape(), " (targets, or one of `more`) must have one row for each sample");
    TANDEM_CHECK(array.device() == inputs.device(), "ArrayDataset: inputs are on ", inputs.device(),
                 ", targets or one of `more` on ", array.device());
    return array;
  });
}

Sample ArrayDataset::sample(std::int64_t index) const {
  check_number(index);
  Batch row = rows_.map([&](const Array& array) { return array.select(0, index).clone(); });
  return {row.inputs, row.targets, std::move(row.more)};
}

Batch ArrayDataset::get(std::span<const std::int64_t> indices) const { return gather(numbers(indices)); }

Batch ArrayDataset::gather(const Array& indices) const {
  return rows_.map([&](const Array& array) { return ops::gather_rows(array, indices); });
}

}  // namespace tandem::data
