// own_rule() with kernels for a GPU. A file that nvcc compiles must include this header before any header that includes
// optim/own_rule.h.
#pragma once

#include <tandem/core/cuda/update.cuh>

namespace tandem::optim {

template <class Rule>
void add_kernels(OwnRule& own) {
  own.launch = [](std::span<const UpdateSegment> segments, const void* rule, const void* stored) {
    cuda::update_by(segments, *static_cast<const Rule*>(rule), stored);
  };
  own.write = [](const void* rule, void* to) { cuda::write(*static_cast<const Rule*>(rule), to); };
}

}  // namespace tandem::optim

#define TANDEM_RULES_ON_GPU  // own_rule() calls add_kernels()
#include <tandem/optim/own_rule.h>
