// An arena: many arrays side by side in one block of memory, so that one pass updates them all and one copy saves them.
#pragma once

#include <tandem/core/array/array.h>

#include <span>
#include <vector>

namespace tandem::optim {

// Row-major arrays with the shapes, the dtype and the device of `like`, in one block, each beginning on a 64-byte
// boundary and each with a version count of its own. Contents are uninitialised. The block lives as long as any of
// them.
std::vector<Array> arena_like(std::span<const Array> like);

}  // namespace tandem::optim
