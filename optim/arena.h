// An arena holds many arrays in one block of memory. One pass can update all of them, and one copy can save them.
#pragma once

#include <tandem/core/array/array.h>

#include <span>
#include <vector>

namespace tandem::optim {

// Creates arrays in one block, with the shapes, dtypes, memory orders and device of `like`. Each array is dense, even
// if its model in `like` has gaps. It starts on a 64-byte boundary and has its own version count. The contents are
// undefined. The block lives as long as any of the arrays.
std::vector<Array> arena_like(std::span<const Array> like);

}  // namespace tandem::optim
