// How accurate and how repeatable matrix products and convolutions are, for the whole process. Any thread may call
// these functions. Work that is started after a change follows the new choice; a captured step keeps the old choice.
#pragma once

namespace tandem {

struct MathMode {
  // On the CPU: computes convolutions only as direct sums, without the tiles of core/cpu/conv/cook_toom_conv.h. The
  // tiles are two to three times as fast. Their errors are up to 20 times those of direct sums in f32, but small
  // compared with those of bf16.
  bool exact_convolutions = false;
  // The other members concern only GPUs.
  //
  // TF32: the tensor cores round f32 operands to a mantissa of 10 bits when they read them; sums are f32. From the
  // Ampere architecture on, this is several times faster. Each product has about three decimal digits instead of seven.
  // The defaults are PyTorch's; --deterministic turns both off.
  bool tf32_matmul = false;
  bool tf32_conv = true;
  // Allows only algorithms that produce the same bits in each run.
  bool deterministic = false;
};

MathMode math_mode();

void set_exact_convolutions(bool on);
// Like torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.allow_tf32, with the same defaults.
void set_tf32(bool matmul, bool conv);
// For convolutions and scatter operations; TF32 stays as it is. A convolution for which cuDNN has no deterministic
// algorithm throws an Error that says so.
void set_deterministic(bool on);

}  // namespace tandem
