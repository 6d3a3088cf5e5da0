// The steps of recurrent layers. A thread processes whole sequences, with several units side by side in the lanes of a
// vector.
#include <tandem/core/backend/recurrent_kernel.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/vector_math.h>
#include <tandem/core/formulas/recurrent.h>

namespace tandem {

namespace {

// Processes all units of sequence n. The formulas use about twenty vectors, which stay in registers only if everything
// is inlined. With inlining, a sequence takes less than half the time.
template <class Cell, class C, class Step>
[[gnu::flatten]] void run_sequence(const Step& step, std::int64_t n) {
  cpu::for_each_lanes<cpu::math_lanes<C>>(step.units, [&](std::int64_t unit, std::int64_t some) {
    step.template run<Cell, cpu::RowMath<C>>(n, unit, some);
  });
}

template <class T, class Step>
void run(RecurrentCell cell, std::int64_t sequences, const Step& step) {
  with_cell(cell, [&](auto c) {
    // A unit takes as long as about ten numbers of an element-wise operation.
    cpu::parallel_for(sequences, 10 * sequences * step.units,
                      [&](std::int64_t n) { run_sequence<decltype(c), compute_t<T>>(step, n); });
  });
}

void run_step(RecurrentCell cell, const Array& from_x, const Array& from_h, const Array* bias, const Array& before,
              const Array& after, const Array& kept) {
  dispatch_floating(after.dtype(), "recurrent_step", [&](auto type) {
    using T = decltype(type);
    run<T>(cell, after.dim(1), RecurrentStep<T>(from_x, from_h, bias, before, after, kept));
  });
}

void run_step_grad(RecurrentCell cell, const Array& kept, const Array& before, const Array& after,
                   const Array& grad_after, const Array* grad_h_of_next, const Array& carried, const Array& grad_x,
                   const Array& grad_h) {
  dispatch_floating(after.dtype(), "recurrent_step_grad", [&](auto type) {
    using T = decltype(type);
    run<T>(cell, after.dim(1),
           RecurrentStepGradient<T>(kept, before, after, grad_after, grad_h_of_next, carried, grad_x, grad_h));
  });
}

}  // namespace

void add_recurrent_kernel() { recurrent_kernels.add({Device::Kind::cpu, run_step, run_step_grad}); }

}  // namespace tandem
