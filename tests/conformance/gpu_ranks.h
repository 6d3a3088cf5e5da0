// Runs ranks as threads, each with a separate GPU, in a group over NCCL.
#pragma once

#include <tandem/core/backend/backend.h>
#include <tandem/distributed/groups/nccl/nccl_group.h>
#include <tandem/distributed/job/observers.h>

#include <gtest/gtest.h>
#include <support/ranks.h>

#include <chrono>
#include <exception>
#include <functional>
#include <vector>

namespace tandem::testing {

inline Device gpu_of_rank(int rank) { return Device::cuda(rank); }

inline Group over_nccl(const Group& host, const distributed::Observers& observers = distributed::usual_observers()) {
  return distributed::nccl_group(host, gpu_of_rank(host->rank()), host->rank(), observers);
}

inline std::vector<std::exception_ptr> run_gpu_ranks_catching(
    int size, const std::function<void(Group)>& body, std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  return run_ranks_catching(
      size, [&](Group host) { body(over_nccl(host)); }, timeout);
}

inline void run_gpu_ranks(int size, const std::function<void(Group)>& body) {
  run_ranks(size, [&](Group host) { body(over_nccl(host)); });
}

}  // namespace tandem::testing

#define NEEDS_GPUS(count)                         \
  if (device_count(Device::Kind::cuda) < (count)) \
  GTEST_SKIP() << "needs " << (count) << " GPUs, and here are only " << device_count(Device::Kind::cuda)

namespace tandem::testing {

// Tests that run with several numbers of ranks, which nccl_group_test.cpp lists. With one rank, a machine with one GPU
// runs everything of NCCL except the peers.
class NcclRanks : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { NEEDS_GPUS(GetParam()); }
};

}  // namespace tandem::testing
