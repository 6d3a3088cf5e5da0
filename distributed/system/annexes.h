// How the annexes of this layer reach its lists (core/base/annex.h).
#pragma once

#include <tandem/core/base/annex.h>

namespace tandem {

// As add_core_annexes().
void add_distributed_annexes();

}  // namespace tandem
