// Runs the conformance tests on the emulated GPU instead of a real one.
#include <tandem/core/device/math_mode.h>

#include <emulation/random_order.h>
#include <emulation/streams.h>
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>

namespace tandem {
void add_cuda_backend();  // core/cuda/cuda_backend.cpp
}

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!GTEST_FLAG_GET(list_tests)) {
    std::printf("Orders of work are those of TANDEM_EMULATED_SEED=%" PRIu64 ".\n", emulation::seed_of_orders());
    std::fflush(stdout);  // a test may end the process
  }
  tandem::set_tf32(false, false);  // f32 means f32 in the tests; the TF32 tests enable TF32 themselves
  tandem::add_cuda_backend();
  const int code = RUN_ALL_TESTS();
  emulation::rest();  // exit() destroys objects that the GPU may still use
  return code;
}
