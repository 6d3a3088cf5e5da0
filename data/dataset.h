// Dataset: numbered samples, returned a batch at a time.
#pragma once

#include <tandem/core/array/array.h>

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

namespace tandem::data {

// Supports: for (auto& [images, labels] : loader) ...
struct Batch {
  Array inputs;                  // (N, ...): images (N, C, H, W)
  Array targets;                 // (N, ...): classes (N); undefined without targets
  std::vector<Array> more = {};  // additional arrays of the samples, each (N, ...): masks, lengths, other targets

  // Applies f to each array that is defined.
  template <class F>
  Batch map(const F& f) const {
    const auto of = [&](const Array& array) { return array.defined() ? f(array) : array; };
    Batch result{of(inputs), of(targets)};
    for (const Array& array : more) result.more.push_back(of(array));
    return result;
  }
  // The same numbers on `device`.
  Batch to(Device device) const {
    return map([&](const Array& array) { return array.to(device); });
  }

  template <std::size_t I>
  Array& get() {
    return I == 0 ? inputs : targets;
  }
  template <std::size_t I>
  const Array& get() const {
    return I == 0 ? inputs : targets;
  }
};

// get() may be called from several threads at once. It returns new arrays, which the caller owns.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  // Returns the samples with the numbers `indices`, in that order. A number may occur several times. Throws an Error if
  // a number is not in [0, size).
  virtual Batch get(std::span<const std::int64_t> indices) const = 0;

  // The device on which batches are created. For a data set in a GPU's memory, a Loader calls gather() instead of
  // get(). It sends the numbers of an epoch's samples to the GPU once, and the host never waits.
  virtual Device device() const { return {}; }
  // Returns the samples with the numbers `indices` (N) i64, an array on device(). All numbers must be in [0, size).
  virtual Batch gather(const Array& indices) const { return get(indices.to_vector<std::int64_t>()); }

  // Throws an Error if `index` is not in [0, size).
  void check_number(std::int64_t index) const {
    TANDEM_CHECK(index >= 0 && index < size(), "sample ", index, " was requested, there are ", size());
  }
  // Returns `indices` as an array on device(). Throws an Error if a number is not in [0, size).
  Array numbers(std::span<const std::int64_t> indices) const {
    for (const auto index : indices) check_number(index);
    return Array::from(indices, {static_cast<std::int64_t>(indices.size())}).to(device());
  }
};

}  // namespace tandem::data

// Structured binding of a batch gives its inputs and its targets, even if it has more arrays.
template <>
struct std::tuple_size<tandem::data::Batch> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, tandem::data::Batch> {
  using type = tandem::Array;
};
