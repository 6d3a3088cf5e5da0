// Data sets built from other data sets, which must outlive them.
#pragma once

#include <tandem/data/dataset.h>

#include <tandem/core/random/random.h>

#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

namespace tandem::data {

// The samples of `dataset` at `indices`, in that order.
class Subset : public Dataset {
 public:
  Subset(const Dataset& dataset, std::vector<std::int64_t> indices);
  // A temporary data set would be destroyed before the subset reads it: give it a name.
  Subset(const Dataset&& dataset, std::vector<std::int64_t> indices) = delete;
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  Batch get(std::span<const std::int64_t> indices) const override;
  Device device() const override { return dataset_->device(); }
  Batch gather(const Array& indices) const override;

  const std::vector<std::int64_t>& indices() const { return indices_; }

 private:
  const Dataset* dataset_;
  std::vector<std::int64_t> indices_;
  Array on_device_;  // the indices, on the data set's device
};

// The parts of a data set. A part that is taken from a temporary list is a temporary itself, so a Loader, which would
// refer to it, does not compile with random_split(...)[0].
class Parts : public std::vector<Subset> {
 public:
  using vector::vector;
  const Subset& operator[](std::size_t i) const& { return vector::operator[](i); }
  Subset operator[](std::size_t i) && { return std::move(vector::operator[](i)); }
  const Subset& at(std::size_t i) const& { return vector::at(i); }
  Subset at(std::size_t i) && { return std::move(vector::at(i)); }
  const Subset& front() const& { return vector::front(); }
  Subset front() && { return std::move(vector::front()); }
  const Subset& back() const& { return vector::back(); }
  Subset back() && { return std::move(vector::back()); }
};

// Splits `dataset` randomly into parts of the given sizes, which must add up to the size of the data set. The parts
// match torch.utils.data.random_split bit for bit. They depend on how many numbers `generator` has drawn before, and
// each pass over a Loader draws one. If only some ranks have made a pass, such as an evaluation on rank 0, the ranks
// split differently: split before the training, or pass a Generator of its own.
Parts random_split(const Dataset& dataset, const std::vector<std::int64_t>& sizes,
                   Generator& generator = default_generator());
// A temporary data set would be destroyed before the parts are read: give it a name.
Parts random_split(const Dataset&& dataset, const std::vector<std::int64_t>& sizes,
                   Generator& generator = default_generator()) = delete;
Parts random_split(const Dataset&& dataset, const std::vector<double>& fractions,
                   Generator& generator = default_generator()) = delete;
// Splits randomly by fractions, which must add up to 1. Sizes are rounded down. The remaining samples go to the first
// parts, one each.
Parts random_split(const Dataset& dataset, const std::vector<double>& fractions,
                   Generator& generator = default_generator());
// random_split(dataset, {8, 2}) splits by whole numbers, random_split(dataset, {0.8, 0.2}) by fractions.
template <class T>
Parts random_split(const Dataset& dataset, std::initializer_list<T> parts, Generator& generator = default_generator()) {
  using Part = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
  return random_split(dataset, std::vector<Part>(parts.begin(), parts.end()), generator);
}
template <class T>
Parts random_split(const Dataset&& dataset, std::initializer_list<T> parts,
                   Generator& generator = default_generator()) = delete;

// Several data sets concatenated, on the host. All samples must have the same shapes.
class ConcatDataset : public Dataset {
 public:
  explicit ConcatDataset(std::vector<const Dataset*> datasets);
  std::int64_t size() const override { return ends_.back(); }
  Batch get(std::span<const std::int64_t> indices) const override;

 private:
  std::vector<const Dataset*> datasets_;
  std::vector<std::int64_t> ends_;  // one past the last sample of each data set
};

}  // namespace tandem::data
