// Tests --device of a training program on a machine with GPUs.
#include <tandem/distributed/training/options/training_options.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#ifdef TANDEM_EMULATED_CUDA
#include <cuda_runtime.h>

namespace tandem::distributed {
namespace {

// The device of a program, or the exit code of a program that does not reach training.
struct Outcome {
  std::optional<Device> device;
  int code = 0;
  std::string err;
};

Outcome run(std::vector<const char*> arguments, int gpus, int local_rank = 0, int processes = 1) {
  const std::vector<std::pair<const char*, std::string>> variables{{"RANK", std::to_string(local_rank)},
                                                                   {"LOCAL_RANK", std::to_string(local_rank)},
                                                                   {"WORLD_SIZE", std::to_string(processes)},
                                                                   {"LOCAL_WORLD_SIZE", std::to_string(processes)},
                                                                   {"MASTER_ADDR", "127.0.0.1"},
                                                                   {"MASTER_PORT", "29500"}};
  for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
  const int before = std::exchange(emulation::driver().devices, gpus);
  TrainingOptions options("program", "");
  arguments.insert(arguments.begin(), "program");
  Outcome outcome;
  ::testing::internal::CaptureStderr();
  outcome.code =
      options.run(static_cast<int>(arguments.size()), arguments.data(), [&] { outcome.device = options.device(); });
  outcome.err = ::testing::internal::GetCapturedStderr();
  emulation::driver().devices = before;
  for (const auto& [name, value] : variables) unsetenv(name);
  return outcome;
}

TEST(DeviceOption, AutoTakesTheGpu) { EXPECT_EQ(run({}, 2).device, Device::cuda(0)); }

TEST(DeviceOption, CpuIsTheCpu) { EXPECT_EQ(run({"--device", "cpu"}, 2).device, Device{}); }

TEST(DeviceOption, LocalRankChoosesTheGpu) {
  EXPECT_EQ(run({"--device", "cuda"}, 2, 1, 2).device, Device::cuda(1));
  EXPECT_EQ(run({}, 2, 1, 2).device, Device::cuda(1));
}

TEST(DeviceOption, AutoFallsBackWhereThereIsNone) {
  const auto outcome = run({}, 0);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.device, Device{});
}

TEST(DeviceOption, AutoFallsBackOnAllProcessesOfAHostWithTooFew) {
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(run({}, 2, rank, 3).device, Device{}) << "rank " << rank;
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(run({}, 1, rank, 2).device, Device{}) << "rank " << rank;
}

TEST(DeviceOption, CudaWithoutAGpuIsAUsageError) {
  const auto none = run({"--device", "cuda"}, 0);
  EXPECT_EQ(none.code, 2);
  EXPECT_FALSE(none.device);
  EXPECT_NE(none.err.find("--device cuda: "), std::string::npos) << none.err;
  // All processes of a host fail in the same way, and the first one reports it.
  for (int rank = 0; rank < 3; ++rank) {
    const auto too_few = run({"--device", "cuda"}, 2, rank, 3);
    EXPECT_EQ(too_few.code, 2);
    EXPECT_EQ(too_few.err.find("--device cuda: this host has 3 processes and 2 GPUs") != std::string::npos, rank == 0)
        << too_few.err;
  }
}

}  // namespace
}  // namespace tandem::distributed
#endif
