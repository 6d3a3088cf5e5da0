// IndexFault: an index in the data that names nothing, such as a class that cross_entropy does not have, or a row that
// does not exist. The CPU finds it while it computes; a GPU finds it after the call has returned (core/cuda/faults.h).
// Both report it in the same words.
#pragma once

#include <tandem/core/base/check.h>

#include <cstdint>

namespace tandem {

struct IndexFault {
  enum class Of : std::int64_t {
    none,
    cross_entropy,
    gather_rows,
    index_select,
    index_add,
    gather,
    scatter,
    scatter_add,
    one_hot,
    embedding,
    nll_loss,
  };
  Of of = Of::none;
  std::int64_t position = 0;  // in the array of indices, counted row by row
  std::int64_t index = 0;     // the index that stands there
  std::int64_t count = 0;     // valid indices are 0 to count - 1
};

constexpr const char* name_of(IndexFault::Of of) {
  constexpr const char* names[] = {"index",   "cross_entropy", "gather_rows", "index_select", "index_add", "gather",
                                   "scatter", "scatter_add",   "one_hot",     "embedding",    "nll_loss"};
  return names[static_cast<std::size_t>(of)];
}

[[noreturn]] inline void fail(const IndexFault& fault) {
  if (fault.of == IndexFault::Of::cross_entropy || fault.of == IndexFault::Of::nll_loss)
    detail::fail(name_of(fault.of), ": target ", fault.index, " at row ", fault.position,
                 " is not a class: expected 0 to ", fault.count - 1);
  if (fault.of == IndexFault::Of::gather_rows)
    detail::fail("gather_rows: index ", fault.index, " at position ", fault.position, " is not a row: expected 0 to ",
                 fault.count - 1);
  detail::fail(name_of(fault.of), ": index ", fault.index, " at position ", fault.position,
               " is out of range for size ", fault.count, ": expected 0 to ", fault.count - 1);
}

// The first position of `index` (n) that is outside of [0, count), or -1.
inline std::int64_t first_outside(const std::int64_t* index, std::int64_t n, std::int64_t count) {
  for (std::int64_t i = 0; i < n; ++i)
    if (index[i] < 0 || index[i] >= count) return i;
  return -1;
}

}  // namespace tandem
