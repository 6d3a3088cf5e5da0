// The steps of recurrent layers, without their matrix products: the interface of a device's kernels.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/base/annex.h>
#include <tandem/core/formulas/recurrent_cell.h>

namespace tandem {

// The two functions of one kind of device. All of their arrays have the same floating dtype.
struct RecurrentKernel {
  Device::Kind device;
  // Computes one step of N sequences with H units (core/formulas/recurrent.h). from_x and from_h are (N, G * H), bias
  // is (G * H) or null, kept is (N, K * H). before and after are (S, N, H), and each of their S parts is dense.
  void (*step)(RecurrentCell cell, const Array& from_x, const Array& from_h, const Array* bias, const Array& before,
               const Array& after, const Array& kept);
  // Computes the gradient of that step. grad_after (S, N, H) is the external gradient of `after`, with the strides of
  // `after`. grad_h_of_next (N, H) is the gradient that reached h through the gates of the following step, or null.
  // carried (S, N, H) is the gradient that bypassed those gates; it is overwritten with the gradient that bypasses the
  // gates of this step. grad_x and grad_h are (N, G * H), and the same array if the cell only adds.
  void (*step_grad)(RecurrentCell cell, const Array& kept, const Array& before, const Array& after,
                    const Array& grad_after, const Array* grad_h_of_next, const Array& carried, const Array& grad_x,
                    const Array& grad_h);
};
inline constinit AnnexList<RecurrentKernel> recurrent_kernels{add_core_annexes};

}  // namespace tandem
