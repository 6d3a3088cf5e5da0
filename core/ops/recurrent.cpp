#include <tandem/core/backend/recurrent_kernel.h>
#include <tandem/core/base/check.h>
#include <tandem/core/formulas/recurrent.h>
#include <tandem/core/ops/create.h>
#include <tandem/core/ops/elementwise.h>
#include <tandem/core/ops/linear.h>
#include <tandem/core/ops/recurrent.h>

#include <algorithm>

namespace tandem::ops {

namespace {

const RecurrentKernel& kernel_of(Device device) {
  const auto kernels = recurrent_kernels.entries();
  const auto kernel = std::ranges::find(kernels, device.kind, &RecurrentKernel::device);
  TANDEM_CHECK(kernel != kernels.end(), "recurrence: this build has no kernel for ", device);
  return *kernel;
}

}  // namespace

RecurrentStates recurrent(RecurrentCell cell, const Array& from_x, const Array& weight, const Array& bias,
                          std::span<const Array> first, bool reverse, bool keeps_all) {
  const std::int64_t length = from_x.dim(0), batch = from_x.dim(1), units = weight.dim(1);
  const DType dtype = first[0].dtype();
  const Device device = from_x.device();
  const RecurrentKernel& kernel = kernel_of(device);
  const RecurrentStates all{Array::empty({states_of(cell), length + 1, batch, units}, dtype, device),
                            Array::empty({keeps_all ? length : 1, batch, kept_of(cell) * units}, dtype, device)};
  for (std::size_t s = 0; s < first.size(); ++s)
    all.states.select(0, static_cast<std::int64_t>(s)).select(0, reverse ? length : 0).copy_from(first[s]);
  if (batch == 0) return all;
  const Array x = from_x.contiguous().to(dtype), b = bias.defined() ? bias.contiguous().to(dtype) : Array();
  // Products with few rows are fastest if the matrix is stored in the order in which it is multiplied.
  const Array transposed = weight.transpose(0, 1).contiguous();
  const Array before = all.before(reverse), after = all.after(reverse);
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t t = reverse ? length - 1 - i : i;
    const Array old = before.select(1, t);
    const Array from_h = matmul(old.select(0, 0).to(weight.dtype()), transposed).to(dtype);
    kernel.step(cell, x.select(0, t), from_h, b.defined() ? &b : nullptr, old, after.select(1, t),
                all.kept.select(0, keeps_all ? t : 0));
  }
  return all;
}

RecurrentGradients recurrent_grad(RecurrentCell cell, const Array& weight, const RecurrentStates& forward,
                                  const Array& grad, bool reverse) {
  const Array before = forward.before(reverse), after = forward.after(reverse), dense = grad.contiguous();
  const Array grad_after = RecurrentStates{dense, {}}.after(reverse);
  const std::int64_t length = after.dim(1), batch = after.dim(2), units = after.dim(3);
  const DType dtype = after.dtype();
  const Device device = after.device();
  const RecurrentKernel& kernel = kernel_of(device);
  const Array grad_x = Array::empty({length, batch, gates_of(cell) * units}, dtype, device);
  const Array grad_h = adds_gates(cell) ? grad_x : Array::empty(grad_x.shape(), dtype, device);
  const Array carried = zeros({states_of(cell), batch, units}, dtype, device);
  if (batch == 0) return {grad_x, grad_h, carried};
  Array grad_h_of_next;
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t t = reverse ? i : length - 1 - i;
    kernel.step_grad(cell, forward.kept.select(0, t), before.select(1, t), after.select(1, t), grad_after.select(1, t),
                     i > 0 ? &grad_h_of_next : nullptr, carried, grad_x.select(0, t), grad_h.select(0, t));
    grad_h_of_next = matmul(grad_h.select(0, t).to(weight.dtype()), weight).to(dtype);
  }
  Array carried_h = carried.select(0, 0);
  add_(carried_h, grad_h_of_next);
  return {grad_x, grad_h, carried};
}

}  // namespace tandem::ops
