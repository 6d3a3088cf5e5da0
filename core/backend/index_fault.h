// IndexFault: an invalid index in the data, such as a class label that is out of range in cross_entropy, or a row that
// does not exist. The CPU detects it while it computes; a GPU detects it after the call has returned
// (core/cuda/faults.h). Both report it in the same words.
#pragma once

#include <tandem/core/base/check.h>

#include <cstdint>

namespace tandem {

struct IndexFault {
  // The kind of thing to which the index refers.
  enum class Kind : std::int64_t {
    element,       // of a dimension
    row,           // of an array
    target_class,  // of a loss; the position is a row of the targets
  };
  // The operation that received the index. It is a literal on the host; kernels pass on its address without reading it.
  // Null means that there is no fault.
  const char* operation = nullptr;
  Kind kind = Kind::element;
  std::int64_t position = 0;  // in the array of indices, counted in row-major order
  std::int64_t index = 0;     // the index at that position
  std::int64_t count = 0;     // valid indices are 0 to count - 1
};

[[noreturn]] inline void fail(const IndexFault& fault) {
  if (fault.kind == IndexFault::Kind::target_class)
    detail::fail(fault.operation, ": target ", fault.index, " at row ", fault.position,
                 " is not a class: expected 0 to ", fault.count - 1);
  if (fault.kind == IndexFault::Kind::row)
    detail::fail(fault.operation, ": index ", fault.index, " at position ", fault.position,
                 " is not a row: expected 0 to ", fault.count - 1);
  detail::fail(fault.operation, ": index ", fault.index, " at position ", fault.position, " is out of range for size ",
               fault.count, ": expected 0 to ", fault.count - 1);
}

// Returns the first position of `index` (n) that is outside [0, count), or -1.
inline std::int64_t first_outside(const std::int64_t* index, std::int64_t n, std::int64_t count) {
  for (std::int64_t i = 0; i < n; ++i)
    if (index[i] < 0 || index[i] >= count) return i;
  return -1;
}

}  // namespace tandem
