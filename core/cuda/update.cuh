// The kernels of an optimizer's rule (core/formulas/update_rules.h). Programs instantiate them for their own rules.
#pragma once

#include <tandem/core/formulas/update_rules.h>
#include <tandem/core/cuda/segments.cuh>

#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

namespace tandem::cuda {

template <int states>
struct UpdateEntry {
  float* parameter;
  const float* gradient;
  float* state[states > 0 ? states : 1];
  float* count;
  std::int64_t numel;
  unsigned first_block;
  bool is_first;
};

template <class Rule>
inline constexpr int states_of = static_cast<int>(Rule::state_names.size());
template <class Rule>
using UpdateSegments = Segments<UpdateEntry<states_of<Rule>>, sizeof(Rule) + sizeof(Rule*) + sizeof(float*)>;

template <class Rule>
__global__ void store(Rule rule, Rule* to) {
  *to = rule;
}

__device__ inline bool is_left_out(const float* while_finite) { return while_finite && !std::isfinite(*while_finite); }

template <class Rule>
__global__ void count_updates(const __grid_constant__ UpdateSegments<Rule> segments, const float* while_finite) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < segments.count && !is_left_out(while_finite)) ++*segments.entries[i].count;
}

template <class Update, int states, std::size_t... part>
__device__ void call(const Update& update, float& parameter, float gradient, [[maybe_unused]] float (&state)[states],
                     std::index_sequence<part...>) {
  update(parameter, gradient, state[part]...);
}

// A block takes numbers_per_block numbers of a segment. Everything is loaded before anything is stored, so that all
// loads are under way together.
template <class Rule>
__global__ void update_chunks(const __grid_constant__ UpdateSegments<Rule> segments, Rule rule, const Rule* stored,
                              const float* while_finite) {
  constexpr int states = states_of<Rule>;
  if (is_left_out(while_finite)) return;
  const auto& s = segments.of_block(blockIdx.x);
  // A rule's at() may call pow() in double a few times, so only one thread of the block calls it.
  TANDEM_SHARED(update, 1, decltype(update_of(rule, 0.0f, false)));
  if (threadIdx.x == 0) *update = update_of(stored ? *stored : rule, s.count ? *s.count : 0.0f, s.is_first);
  __syncthreads();
  const std::int64_t first = (blockIdx.x - s.first_block) * numbers_per_block + threadIdx.x;
  float parameter[numbers_per_thread] = {}, gradient[numbers_per_thread] = {},
        state[numbers_per_thread][states > 0 ? states : 1] = {};
  for (int k = 0; k < numbers_per_thread; ++k) {
    const std::int64_t i = first + k * block_threads;
    if (i >= s.numel) continue;
    parameter[k] = s.parameter[i];
    gradient[k] = s.gradient[i];
    for (int part = 0; part < states; ++part) state[k][part] = s.state[part][i];
  }
  for (int k = 0; k < numbers_per_thread; ++k) {
    const std::int64_t i = first + k * block_threads;
    if (i >= s.numel) continue;
    call(*update, parameter[k], gradient[k], state[k], std::make_index_sequence<states>{});
    for (int part = 0; part < states; ++part) s.state[part][i] = state[k][part];
    s.parameter[i] = parameter[k];
  }
}

// See Backend::update.
template <class Rule>
void update_by(std::span<const UpdateSegment> segments, const Rule& rule, const void* stored_rule) {
  const auto* stored = static_cast<const Rule*>(stored_rule);
  UpdateSegments<Rule> some{};
  static_assert(sizeof some + sizeof rule + sizeof stored + sizeof(float*) <= 4096, "what a kernel takes as arguments");
  const float* while_finite = nullptr;
  const auto run = [&] {
    if constexpr (Rule::counts) {
      if (some.count > 0)
        launch(count_updates<Rule>, blocks_for(some.count, block_threads), dim3(block_threads), some, while_finite);
    }
    if (some.blocks > 0)
      launch(update_chunks<Rule>, dim3(some.blocks), dim3(block_threads), some, rule, stored, while_finite);
    some = {};
  };
  for (const UpdateSegment& s : segments) {
    if (s.numel == 0 && !Rule::counts) continue;
    if (s.while_finite != while_finite) run();
    while_finite = s.while_finite;
    UpdateEntry<states_of<Rule>> entry{s.parameter, s.gradient, {}, s.count, s.numel, 0, s.is_first};
    for (int part = 0; part < states_of<Rule>; ++part) entry.state[part] = s.state[part];
    if (!some.add(entry, s.numel)) run();
  }
  run();
}

// See Backend::write_rule.
template <class Rule>
void write(const Rule& rule, void* to) {
  launch(store<Rule>, dim3(1), dim3(1), rule, static_cast<Rule*>(to));
}

}  // namespace tandem::cuda
