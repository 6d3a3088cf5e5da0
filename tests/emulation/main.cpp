// Runs the conformance tests with the emulated GPU in place of a real one.
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/graph.h>

#include <gtest/gtest.h>

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  tandem::set_cuda_backend([](int index) -> tandem::Backend& { return tandem::cuda_backend(index); },
                           tandem::cuda_device_count);
  tandem::set_graph_recorder(tandem::cuda::record_graph);
  return RUN_ALL_TESTS();
}
