#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/loops.h>
#include <tandem/core/cpu/reduce_blocks.h>
#include <tandem/core/cpu/reduce_walk.h>

#include <memory>

namespace tandem {

namespace cpu {
namespace {

// An operation on numbers of type T, for the walk.
template <class Op, class T>
class BlocksOf final : public BlockReduction {
  using State = typename Op::template State<T>;
  static_assert(sizeof(State) <= most_state_bytes && std::is_trivially_destructible_v<State>);
  const Op& op_;
  const std::int64_t count_;  // numbers of an output
  const ReductionOutput out_;

  static const T* numbers(const std::byte* x) { return reinterpret_cast<const T*>(x); }
  static State* typed(std::byte* states) { return reinterpret_cast<State*>(states); }
  static const State* typed(const std::byte* states) { return reinterpret_cast<const State*>(states); }

 public:
  BlocksOf(const Op& op, std::int64_t count, ReductionOutput out)
      : BlockReduction(sizeof(T), sizeof(State)), op_(op), count_(count), out_(out) {}

  void start(std::byte* states, std::int64_t count) const override {
    std::uninitialized_default_construct_n(typed(states), count);
  }
  void row(const std::byte* x, std::int64_t n, std::int64_t stride, std::byte* state) const override {
    reduce_row(op_, numbers(x), n, stride, *typed(state));
  }
  void rows(const std::byte* x, std::int64_t count, std::int64_t n, std::int64_t row_stride,
            std::byte* states) const override {
    reduce_rows(op_, numbers(x), count, n, row_stride, typed(states));
  }
  void columns(const std::byte* x, std::int64_t columns, std::int64_t rows, std::int64_t row_stride,
               std::byte* states) const override {
    reduce_columns(op_, numbers(x), columns, rows, row_stride, typed(states));
  }
  void merge(std::byte* states, const std::byte* others, std::int64_t count) const override {
    for (std::int64_t i = 0; i < count; ++i) typed(states)[i].merge(typed(others)[i]);
  }
  void finish(std::int64_t o, const std::byte* states, std::int64_t count, std::int64_t stride) const override {
    if (out_.dtype == dtype_of<T>()) {  // nearly always so: no choice of the dtype for each number
      T* to = static_cast<T*>(out_.data) + o;
      for (std::int64_t i = 0; i < count; ++i)
        to[i * stride] = static_cast<T>(static_cast<compute_t<T>>(op_.template result<T>(typed(states)[i], count_)));
      return;
    }
    for (std::int64_t i = 0; i < count; ++i)
      out_.write(o + i * stride, op_.template result<T>(typed(states)[i], count_));
  }
};

// y has size 1 in the reduced dimensions.
template <class Op>
void reduce_with(const Op& op, const Array& x, const Array& y) {
  if (y.numel() == 0) return;
  const ReduceWalk walk(x, y);
  const auto run = [&](auto type) {
    // A bool is a byte that is 0 or 1.
    using T = std::conditional_t<std::is_same_v<decltype(type), bool>, std::uint8_t, decltype(type)>;
    reduce(BlocksOf<Op, T>(op, walk.reduced.count, {y.raw(), y.dtype()}), walk, x.raw());
  };
  if constexpr (reductions::takes_integers<Op>) dispatch(x.dtype(), run);
  else dispatch_floating(x.dtype(), "reduction", run);
}

}  // namespace
}  // namespace cpu

void CpuBackend::reduce(const Reduction& op, const Array& x, const Array& y) {
  std::visit([&](const auto& f) { cpu::reduce_with(f, x, y); }, op.any());
}

void CpuBackend::reduce_grad(const Reduction& op, const Array& x, const Array& y, const Array& grad_y,
                             const Array& grad_x) {
  tandem::reduce_grad<cpu::Loops>(op, x, y, grad_y, grad_x);
}

}  // namespace tandem
