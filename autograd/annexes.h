// The annexes of this layer add themselves to its lists through this (core/base/annex.h).
#pragma once

#include <tandem/core/base/annex.h>

namespace tandem {

void add_autograd_annexes();  // as add_core_annexes()

}  // namespace tandem
