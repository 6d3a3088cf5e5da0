// The steps of recurrent layers: a thread takes a unit of a sequence.
#include <tandem/core/backend/recurrent_kernel.h>
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/formulas/recurrent.h>
#include <tandem/core/cuda/launch.cuh>

namespace tandem {

namespace {

template <class Cell, class C, class Step>
__global__ void do_step(std::int64_t sequences, Step step) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < sequences * step.units;
       i += stride)
    step.template run<Cell, ScalarMath<C>>(i / step.units, i % step.units, 1);
}

template <class T, class Step>
void run(RecurrentCell cell, std::int64_t sequences, const Step& step) {
  constexpr int threads = 256;
  with_cell(cell, [&](auto c) {
    cuda::launch(do_step<decltype(c), compute_t<T>, Step>, cuda::blocks_for(sequences * step.units, threads),
                 dim3(threads), sequences, step);
  });
}

void run_step(RecurrentCell cell, const Array& from_x, const Array& from_h, const Array* bias, const Array& before,
              const Array& after, const Array& kept) {
  cuda::use_device(after.device().index);
  dispatch_floating(after.dtype(), "recurrent_step", [&](auto type) {
    using T = decltype(type);
    run<T>(cell, after.dim(1), RecurrentStep<T>(from_x, from_h, bias, before, after, kept));
  });
}

void run_step_grad(RecurrentCell cell, const Array& kept, const Array& before, const Array& after,
                   const Array& grad_after, const Array* grad_h_of_next, const Array& carried, const Array& grad_x,
                   const Array& grad_h) {
  cuda::use_device(after.device().index);
  dispatch_floating(after.dtype(), "recurrent_step_grad", [&](auto type) {
    using T = decltype(type);
    run<T>(cell, after.dim(1),
           RecurrentStepGradient<T>(kept, before, after, grad_after, grad_h_of_next, carried, grad_x, grad_h));
  });
}

}  // namespace

void cuda::add_recurrent_kernel() { recurrent_kernels.add({Device::Kind::cuda, run_step, run_step_grad}); }

}  // namespace tandem
