// own_rule: hands a program's own rule for every number to FusedOptimizer (docs/optimizers.md shows one).
#pragma once

#include <tandem/core/cpu/update_piece.h>
#include <tandem/optim/fused_optimizer.h>

#include <cstring>
#include <type_traits>

#if defined(__CUDACC__) && !defined(TANDEM_RULES_ON_GPU)
#error "own_rule() makes no kernels here: include <tandem/optim/own_rule.cuh> first"
#endif

namespace tandem::optim {

// A program may name one rule in files that nvcc compiles and in others. The namespaces keep the two results apart.
#ifdef TANDEM_RULES_ON_GPU
inline namespace with_gpu {
#else
inline namespace without_gpu {
#endif

// `rule` is a struct as core/formulas/update_rules.h describes them, with at most three kinds of state. The loop over
// the numbers is compiled here, by the program's compiler and with its options. A GPU needs a file compiled by nvcc,
// which includes optim/own_rule.cuh first; otherwise the step of a parameter on a GPU is an Error.
template <class Rule>
UpdateRule own_rule(const Rule& rule) {
  static_assert(std::is_trivially_copyable_v<Rule>, "a rule is copied to the device as bytes");
  static_assert(sizeof(Rule) <= OwnRule::most_bytes && alignof(Rule) <= 16, "a rule is a few numbers");
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
