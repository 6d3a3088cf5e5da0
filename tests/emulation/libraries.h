// What the emulated cuBLAS and cuDNN can't do: a test sets it to see what the back-end does instead.
#pragma once

namespace emulation {

struct Libraries {
  bool add_bias = true;       // multiply and convolve can add one
  bool channels_last = true;  // cuDNN has an algorithm for it
  bool row_major = true;
};
Libraries& libraries();

}  // namespace emulation
