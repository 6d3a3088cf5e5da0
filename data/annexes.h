// The annexes of this layer (core/base/annex.h).
#pragma once

namespace tandem {

void add_data_annexes();

}  // namespace tandem
