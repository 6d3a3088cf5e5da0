// How the annexes of this layer reach its lists (core/base/annex.h).
#pragma once

#include <tandem/core/base/annex.h>

namespace tandem {

void add_autograd_annexes();  // as add_core_annexes()

}  // namespace tandem
