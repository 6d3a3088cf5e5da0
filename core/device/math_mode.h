// How exact and how repeatable matrix products and convolutions are, for the whole process. Any thread may call. Work
// that is asked for after a change follows the new choice; a captured step keeps the old one.
#pragma once

namespace tandem {

struct MathMode {
  // On the CPU: convolutions as direct sums alone, without the tiles of core/cpu/conv/cook_toom_conv.h. Those are two
  // to three times as fast; their errors are up to 20 times those of direct sums in f32, and small beside those of
  // bf16.
  bool exact_convolutions = false;
  // The others are for GPUs alone.
  //
  // TF32: f32 operands are rounded to 10 bits of mantissa as the tensor cores read them, and sums are f32. From the
  // Ampere architecture on this is several times faster. Each product has about three decimal digits instead of seven.
  // The defaults are PyTorch's; --deterministic turns both off.
  bool tf32_matmul = false;
  bool tf32_conv = true;
  // Only algorithms that give the same bits each time.
  bool deterministic = false;
};

MathMode math_mode();

void set_exact_convolutions(bool on);
// As torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.allow_tf32, with the same defaults.
void set_tf32(bool matmul, bool conv);
// As torch.backends.cudnn.deterministic. When cuDNN has no deterministic algorithm for a convolution, that convolution
// is an Error that says so.
void set_deterministic(bool on);

}  // namespace tandem
