// Runs the conformance tests with the emulated GPU in place of a real one.
#include <tandem/core/device/math_mode.h>

#include <emulation/streams.h>
#include <gtest/gtest.h>

namespace tandem {
void add_cuda_backend();  // core/cuda/cuda_backend.cpp
}

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  tandem::set_tf32(false, false);  // f32 means f32 in the tests; those of TF32 choose it
  tandem::add_cuda_backend();
  const int code = RUN_ALL_TESTS();
  emulation::rest();  // exit() destroys objects that it may still use
  return code;
}
