#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/formulas/segments_norm.h>
#include <tandem/core/cuda/launch.cuh>
#include <tandem/core/cuda/warp.cuh>

namespace tandem {

namespace {

constexpr int threads = 256, per_thread = 8;
constexpr std::int64_t chunk = threads * per_thread;  // numbers that a block takes

unsigned blocks_of(std::int64_t numel) { return static_cast<unsigned>((numel + chunk - 1) / chunk); }

// Segments as the argument of a kernel. Nothing has to be uploaded, and a graph that records the launch records the
// segments with it. An Entry has `first_block`, the first of the blocks that work on it.
template <class Entry, int argument_bytes>
struct Segments {
  // A kernel takes 4096 bytes of arguments: these are the entries, `count`, `blocks` and the other arguments.
  static constexpr int most = (4096 - argument_bytes - 8) / static_cast<int>(sizeof(Entry));
  Entry entries[most];
  int count = 0;
  unsigned blocks = 0;

  // Adds an entry of `numel` numbers. Returns whether there is room for another entry.
  bool add(const Entry& entry, std::int64_t numel) {
    entries[count] = entry;
    entries[count++].first_block = blocks;
    blocks += blocks_of(numel);
    return count < most;
  }
  __device__ const Entry& of_block(unsigned block) const {
    int first = 0, last = count - 1;
    while (first < last) {
      const int middle = (first + last + 1) / 2;
      if (entries[middle].first_block <= block) first = middle;
      else last = middle - 1;
    }
    return entries[first];
  }
};

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
constexpr int states_of = static_cast<int>(Rule::state_names.size());
template <class Rule>
using UpdateSegments = Segments<UpdateEntry<states_of<Rule>>, sizeof(Rule) + sizeof(Rule*)>;

template <class Rule>
__global__ void store(Rule rule, Rule* to) {
  *to = rule;
}

template <class Rule>
__global__ void count_updates(const __grid_constant__ UpdateSegments<Rule> segments) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < segments.count) ++*segments.entries[i].count;
}

template <class Update, int states, std::size_t... part>
__device__ void call(const Update& update, float& parameter, float gradient, [[maybe_unused]] float (&state)[states],
                     std::index_sequence<part...>) {
  update(parameter, gradient, state[part]...);
}

// A block takes one chunk of a segment. Everything is loaded before anything is stored, so that all loads are under way
// together.
template <class Rule>
__global__ void update_chunks(const __grid_constant__ UpdateSegments<Rule> segments, Rule rule, const Rule* stored) {
  constexpr int states = states_of<Rule>;
  const auto& s = segments.of_block(blockIdx.x);
  // at() may call pow() in double a few times, so only one thread of the block calls it.
  __shared__ decltype(rule.at(0.0f, false)) update;
  if (threadIdx.x == 0) update = (stored ? *stored : rule).at(s.count ? *s.count : 0.0f, s.is_first);
  __syncthreads();
  const std::int64_t first = (blockIdx.x - s.first_block) * chunk + threadIdx.x;
  float parameter[per_thread] = {}, gradient[per_thread] = {}, state[per_thread][states > 0 ? states : 1] = {};
  for (int k = 0; k < per_thread; ++k) {
    const std::int64_t i = first + k * threads;
    if (i >= s.numel) continue;
    parameter[k] = s.parameter[i];
    gradient[k] = s.gradient[i];
    for (int part = 0; part < states; ++part) state[k][part] = s.state[part][i];
  }
  for (int k = 0; k < per_thread; ++k) {
    const std::int64_t i = first + k * threads;
    if (i >= s.numel) continue;
    call(update, parameter[k], gradient[k], state[k], std::make_index_sequence<states>{});
    for (int part = 0; part < states; ++part) s.state[part][i] = state[k][part];
    s.parameter[i] = parameter[k];
  }
}

template <class Rule>
void update_by(std::span<const UpdateSegment> segments, const Rule& rule, const Rule* stored) {
  UpdateSegments<Rule> some{};
  static_assert(sizeof some + sizeof rule + sizeof stored <= 4096, "what a kernel takes as arguments");
  const auto launch = [&] {
    if constexpr (Rule::counts) {
      if (some.count > 0) cuda::launch(count_updates<Rule>, cuda::blocks_for(some.count, threads), dim3(threads), some);
    }
    if (some.blocks > 0) cuda::launch(update_chunks<Rule>, dim3(some.blocks), dim3(threads), some, rule, stored);
    some = {};
  };
  for (const UpdateSegment& s : segments) {
    if (s.numel == 0 && !Rule::counts) continue;
    UpdateEntry<states_of<Rule>> entry{s.parameter, s.gradient, {}, s.count, s.numel, 0, s.is_first};
    for (int part = 0; part < states_of<Rule>; ++part) entry.state[part] = s.state[part];
    if (!some.add(entry, s.numel)) launch();
  }
  launch();
}

struct NormEntry {
  const float* numbers;
  std::int64_t numel;
  unsigned first_block;
};
using NormSegments = Segments<NormEntry, 24>;

// Each block takes one chunk of a segment and writes one sum.
template <NormKind kind>
__global__ void norm_chunks(const __grid_constant__ NormSegments segments, double p, NormSum<kind>* sums) {
  const auto& s = segments.of_block(blockIdx.x);
  const std::int64_t first = (blockIdx.x - s.first_block) * chunk + threadIdx.x;
  float numbers[per_thread] = {};
  for (int k = 0; k < per_thread; ++k) {
    const std::int64_t i = first + k * threads;
    if (i < s.numel) numbers[k] = s.numbers[i];
  }
  NormSum<kind> sum;
  // A zero, which stands for numbers behind the end, adds nothing.
  for (int k = 0; k < per_thread; ++k) sum.add(numbers[k], p);
  cuda::merge_block(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

template <NormKind kind>
__global__ void merge_norms(const NormSum<kind>* sums, unsigned count, double p, float* norm) {
  NormSum<kind> sum;
  for (unsigned i = threadIdx.x; i < count; i += threads) sum.merge(sums[i]);
  cuda::merge_block(sum);
  if (threadIdx.x == 0) *norm = sum.norm(p);
}

}  // namespace

void CudaBackend::update(std::span<const UpdateSegment> segments, const UpdateRule& rule, const void* stored) {
  std::visit([&](const auto& r) { update_by(segments, r, static_cast<const std::decay_t<decltype(r)>*>(stored)); },
             rule);
}

void CudaBackend::write_rule(const UpdateRule& rule, void* to) {
  std::visit(
      [&](const auto& r) {
        using Rule = std::decay_t<decltype(r)>;
        cuda::launch(store<Rule>, dim3(1), dim3(1), r, static_cast<Rule*>(to));
      },
      rule);
}

void CudaBackend::segments_norm(std::span<const Segment> segments, double p, const Array& norm) {
  unsigned all = 0;
  for (const Segment& s : segments) all += blocks_of(s.numel);
  const Array sums = Array::empty({all}, DType::f64, Device::cuda(index_));
  with_norm_kind(p, [&](auto kind) {
    auto* next = static_cast<NormSum<kind>*>(sums.raw());
    NormSegments some{};
    const auto launch = [&] {
      if (some.blocks > 0) cuda::launch(norm_chunks<kind>, dim3(some.blocks), dim3(threads), some, p, next);
      next += some.blocks;
      some = {};
    };
    for (const Segment& s : segments)
      if (s.numel > 0 && !some.add({s.numbers, s.numel, 0}, s.numel)) launch();
    launch();
    cuda::launch(merge_norms<kind>, dim3(1), dim3(threads), static_cast<NormSum<kind>*>(sums.raw()), all, p,
                 static_cast<float*>(norm.raw()));
  });
}

}  // namespace tandem
