// Lets the annexes of this layer add their entries to the layer's lists (core/base/annex.h).
#pragma once

#include <tandem/core/base/annex.h>

namespace tandem {

void add_autograd_annexes();  // see add_core_annexes()

}  // namespace tandem
