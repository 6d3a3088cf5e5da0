// The records that sorting compares on every device. A record consists of an unsigned key, which has the order of the
// values, and of the value's position. No two records are equal, so any sorting algorithm that compares them is stable.
#pragma once

#include <tandem/core/base/dtype.h>

#include <bit>

namespace tandem {

template <std::size_t bytes>
using unsigned_of = std::conditional_t<
    bytes == 8, std::uint64_t,
    std::conditional_t<bytes == 4, std::uint32_t, std::conditional_t<bytes == 2, std::uint16_t, std::uint8_t>>>;

// Returns the key of a value. All NaNs have the same key, which is larger than every other key; -0 has the key of 0.
template <class T>
TANDEM_HOST_DEVICE unsigned_of<sizeof(T)> sort_key(T value, bool descending) {
  using Key = unsigned_of<sizeof(T)>;
  constexpr Key top = static_cast<Key>(Key{1} << (8 * sizeof(T) - 1));
  Key key;
  if constexpr (std::is_integral_v<T>) {
    key = std::is_signed_v<T> ? static_cast<Key>(static_cast<Key>(value) ^ top) : static_cast<Key>(value);
  } else {
    const auto number = static_cast<compute_t<T>>(value);
    key = std::bit_cast<Key>(value);
    if (number != number) key = static_cast<Key>(~Key{0});
    else if (number == 0) key = top;
    else key = key & top ? static_cast<Key>(~key) : static_cast<Key>(key | top);
  }
  return descending ? static_cast<Key>(~key) : key;
}

// A value's key and its position in a row as one number, for rows and dtypes for which both fit in 64 bits.
struct PackedRecord {
  std::uint64_t bits;
  TANDEM_HOST_DEVICE static PackedRecord of(std::uint64_t key, std::int64_t index) {
    return {key << 32 | static_cast<std::uint64_t>(index)};
  }
  TANDEM_HOST_DEVICE std::int64_t index() const { return static_cast<std::int64_t>(bits & 0xffffffffu); }
  TANDEM_HOST_DEVICE std::uint64_t key() const { return bits >> 32; }
  TANDEM_HOST_DEVICE bool operator<(const PackedRecord& other) const { return bits < other.bits; }
};

struct WideRecord {
  std::uint64_t key_;
  std::int64_t index_;
  TANDEM_HOST_DEVICE static WideRecord of(std::uint64_t key, std::int64_t index) { return {key, index}; }
  TANDEM_HOST_DEVICE std::int64_t index() const { return index_; }
  TANDEM_HOST_DEVICE std::uint64_t key() const { return key_; }
  TANDEM_HOST_DEVICE bool operator<(const WideRecord& other) const {
    return key_ != other.key_ ? key_ < other.key_ : index_ < other.index_;
  }
};

// Calls f(T{}, Record{}), where T is the type of the values of `dtype`, and Record is the smallest record for rows of n
// numbers. Bools are sorted as bytes.
template <class F>
void dispatch_sort(DType dtype, std::int64_t n, F f) {
  dispatch(dtype, [&](auto type) {
    using T = std::conditional_t<std::is_same_v<decltype(type), bool>, std::uint8_t, decltype(type)>;
    if constexpr (sizeof(T) <= 4) {
      if (n <= std::int64_t{1} << 32) return f(T{}, PackedRecord{});
    }
    f(T{}, WideRecord{});
  });
}

}  // namespace tandem
