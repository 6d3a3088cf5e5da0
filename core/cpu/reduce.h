// Reductions on the CPU: one function for each operation. They are compiled in reduce_*.cpp.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/formulas/reductions.h>

namespace tandem::cpu {

// y has size 1 in the reduced dimensions.
template <class Op>
void reduce_with(const Op& op, const Array& x, const Array& y);

}  // namespace tandem::cpu
