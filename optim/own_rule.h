// own_rule passes a program's own update rule to FusedOptimizer (docs/optimizers.md has an example).
#pragma once

#include <tandem/core/cpu/update_piece.h>
#include <tandem/optim/fused_optimizer.h>

#include <cstring>
#include <type_traits>

#if defined(__CUDACC__) && !defined(TANDEM_RULES_ON_GPU)
#error "own_rule() compiles no kernels here: include <tandem/optim/own_rule.cuh> first"
#endif

namespace tandem::optim {

// A program may use the same rule in files that nvcc compiles and in others. The namespaces separate the two results.
#ifdef TANDEM_RULES_ON_GPU
inline namespace with_gpu {
#else
inline namespace without_gpu {
#endif

// `rule` is a struct as described in core/formulas/update_rules.h, with at most three state arrays. The program's
// compiler compiles the loop over the numbers, with the program's options. A GPU needs a file that nvcc compiles and
// that includes optim/own_rule.cuh first. Otherwise the step of a parameter on a GPU throws an Error.
template <class Rule>
UpdateRule own_rule(const Rule& rule) {
  static_assert(std::is_trivially_copyable_v<Rule>, "a rule must be trivially copyable");
  static_assert(sizeof(Rule) <= OwnRule::most_bytes && alignof(Rule) <= 16, "a rule must be small");
  static_assert(Rule::state_names.size() <= std::extent_v<decltype(UpdateSegment::state)>, "at most three states");
  OwnRule own{};
  std::memcpy(own.numbers.data(), &rule, sizeof rule);
  own.state_names = Rule::state_names;
  own.counts = Rule::counts;
  own.update = [](const void* r, const UpdateSegment& segment, std::int64_t begin, std::int64_t end) {
    cpu::update_piece(*static_cast<const Rule*>(r), segment, begin, end);
  };
#ifdef TANDEM_RULES_ON_GPU
  add_kernels<Rule>(own);
#endif
  return own;
}

}  // inline namespace
}  // namespace tandem::optim
