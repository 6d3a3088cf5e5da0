// Adds the annexes of this layer to its lists (core/base/annex.h).
#pragma once

#include <tandem/core/base/annex.h>

namespace tandem {

// Like add_core_annexes().
void add_distributed_annexes();

}  // namespace tandem
