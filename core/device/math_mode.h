// How exact and how repeatable matrix products and convolutions are on GPUs, for the whole process. Nothing changes on
// the CPU. Any thread may call; what is asked for later follows the new choice, a captured step keeps the old one.
#pragma once

namespace tandem {

struct MathMode {
  // TF32: f32 operands rounded to 10 bits of mantissa as the tensor cores read them, sums in f32. Several times faster
  // from the Ampere architecture on, and about three decimal digits for each product instead of seven.
  bool tf32_matmul = false;
  bool tf32_conv = true;
  // Only algorithms that give the same bits each time.
  bool deterministic = false;
};

MathMode math_mode();

// torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.allow_tf32, with the same defaults.
void set_tf32(bool matmul, bool conv);
// torch.backends.cudnn.deterministic. Where cuDNN has no such algorithm, a convolution is an error that says so.
void set_deterministic(bool on);

}  // namespace tandem
