#include <tandem/data/combine.h>

#include <tandem/core/ops.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

namespace tandem::data {

namespace {

// Copies `part` to the rows `positions` of `whole`. The first part allocates `whole` with `count` rows.
void place(Array& whole, const Array& part, const std::vector<std::int64_t>& positions, std::int64_t count) {
  if (!part.defined()) return;
  if (!whole.defined()) {
    Shape shape = part.shape();
    shape[0] = count;
    whole =
        part.is_channels_last() ? Array::empty_channels_last(shape, part.dtype()) : Array::empty(shape, part.dtype());
  }
  Shape expected = whole.shape();
  expected[0] = part.dim(0);
  TANDEM_CHECK(part.shape() == expected && part.dtype() == whole.dtype(),
               "ConcatDataset: one data set returns samples of ", whole.shape(), ' ', whole.dtype(),
               ", another returns ", part.shape(), ' ', part.dtype(), " (N first)");
  for (std::size_t i = 0; i < positions.size(); ++i)
    whole.select(0, positions[i]).copy_from(part.select(0, static_cast<std::int64_t>(i)));
}

std::string arrays_of(const Batch& batch) {
  return "inputs, " + std::string(batch.targets.defined() ? "targets" : "no targets") + " and " +
         std::to_string(batch.more.size()) + " more arrays";
}

}  // namespace

Subset::Subset(const Dataset& dataset, std::vector<std::int64_t> indices)
    : dataset_(&dataset), indices_(std::move(indices)) {
  for (const auto index : indices_) dataset.check_number(index);
  if (!dataset.device().is_cpu()) on_device_ = Array::from(indices_, {size()}).to(dataset.device());
}

Batch Subset::get(std::span<const std::int64_t> indices) const {
  std::vector<std::int64_t> theirs;
  for (const auto index : indices) {
    check_number(index);
    theirs.push_back(indices_[static_cast<std::size_t>(index)]);
  }
  return dataset_->get(theirs);
}

Batch Subset::gather(const Array& indices) const {
  if (!on_device_.defined()) return get(indices.to_vector<std::int64_t>());
  return dataset_->gather(ops::gather_rows(on_device_, indices));
}

Parts random_split(const Dataset& dataset, const std::vector<std::int64_t>& sizes, Generator& generator) {
  for (const auto size : sizes)
    TANDEM_CHECK(size >= 0 && size <= dataset.size(), "random_split: a part can't have ", size,
                 " samples of a data set with ", dataset.size());
  const auto sum = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  TANDEM_CHECK(sum == dataset.size(), "random_split: the parts have ", sum, " samples, but the data set has ",
               dataset.size());
  const auto order = generator.permutation(dataset.size());
  Parts parts;
  auto begin = order.begin();
  for (const auto size : sizes) {
    parts.emplace_back(dataset, std::vector<std::int64_t>(begin, begin + size));
    begin += size;
  }
  return parts;
}

Parts random_split(const Dataset& dataset, const std::vector<double>& fractions, Generator& generator) {
  const double sum = std::accumulate(fractions.begin(), fractions.end(), 0.0);
  TANDEM_CHECK(!fractions.empty() && std::abs(sum - 1) < 1e-9, "random_split: the fractions must add up to 1, got ",
               sum);
  std::vector<std::int64_t> sizes;
  std::int64_t left = dataset.size();
  for (const double fraction : fractions) {
    TANDEM_CHECK(fraction >= 0, "random_split: a part can't be ", fraction, " of a data set");
    sizes.push_back(static_cast<std::int64_t>(std::floor(static_cast<double>(dataset.size()) * fraction)));
    left -= sizes.back();
  }
  for (std::size_t i = 0; left > 0; ++i, --left) ++sizes[i % sizes.size()];
  return random_split(dataset, sizes, generator);
}

ConcatDataset::ConcatDataset(std::vector<const Dataset*> datasets) : datasets_(std::move(datasets)) {
  TANDEM_CHECK(!datasets_.empty(), "ConcatDataset: needs at least one data set");
  std::int64_t end = 0;
  for (const Dataset* dataset : datasets_) {
    TANDEM_CHECK(dataset, "ConcatDataset: a data set is null");
    TANDEM_CHECK(dataset->device().is_cpu(), "ConcatDataset: data sets must be on the CPU, but one is on ",
                 dataset->device());
    ends_.push_back(end += dataset->size());
  }
}

Batch ConcatDataset::get(std::span<const std::int64_t> indices) const {
  std::vector<std::vector<std::int64_t>> theirs(datasets_.size()), positions(datasets_.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    check_number(indices[i]);
    const auto d = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), indices[i]) - ends_.begin());
    theirs[d].push_back(indices[i] - (d == 0 ? 0 : ends_[d - 1]));
    positions[d].push_back(static_cast<std::int64_t>(i));
  }
  const auto count = static_cast<std::int64_t>(indices.size());
  Batch whole;
  for (std::size_t d = 0; d < datasets_.size(); ++d) {
    if (theirs[d].empty()) continue;
    Batch part = datasets_[d]->get(theirs[d]);
    if (theirs[d].size() == indices.size()) return part;
    const bool is_first = !whole.inputs.defined();
    place(whole.inputs, part.inputs, positions[d], count);
    if (is_first) whole.more.resize(part.more.size());
    else
      TANDEM_CHECK(whole.targets.defined() == part.targets.defined() && whole.more.size() == part.more.size(),
                   "ConcatDataset: one data set returns batches with ", arrays_of(whole), ", another with ",
                   arrays_of(part));
    place(whole.targets, part.targets, positions[d], count);
    for (std::size_t k = 0; k < part.more.size(); ++k) place(whole.more[k], part.more[k], positions[d], count);
  }
  return whole.inputs.defined() ? whole : datasets_.front()->get({});
}

}  // namespace tandem::data
