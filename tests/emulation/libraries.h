// What the emulated cuBLAS and cuDNN can do. A test forbids a part of it, to see what the back-end does instead.
#pragma once

namespace emulation {

struct Libraries {
  bool add_bias = true;       // matrix products and convolutions can add a bias
  bool sum_rows = true;       // matrix products can sum the rows of their first matrix
  bool channels_last = true;  // cuDNN has an algorithm for channels last
  bool row_major = true;
};
Libraries& libraries();

}  // namespace emulation
