// IndexFault: an index among the data that names nothing: a class of cross_entropy, a row to gather. The CPU finds it
// as it runs, a GPU after the call has returned (core/cuda/faults.h); both say the same.
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
  std::int64_t position = 0;  // in the list of indices, row by row
  std::int64_t index = 0;     // what is there
  std::int64_t count = 0;     // valid are 0 to count - 1
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
