// Collectives over NCCL on GPUs give the same results as in host memory, in the order of their streams.
#include <tandem/core/cuda/runtime.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>
#include <support/ranks.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "gpu_ranks.h"

namespace tandem::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::gpu_of_rank;
using testing::Group;
using testing::NcclRanks;
using testing::over_nccl;
using testing::run_gpu_ranks;

// Waits for an action of another rank. The test fails instead of hanging.
void await(const std::atomic<bool>& flag) {
  const auto until = std::chrono::steady_clock::now() + seconds(20);
  while (!flag && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  ASSERT_TRUE(flag);
}

// Numbers that differ between ranks, and are so small that every order of addition gives the same result.
Array numbers(DType dtype, Device device, bool dense, int rank, int salt) {
  std::vector<float> values;
  for (int i = 0; i < 12; ++i) values.push_back(static_cast<float>((i * 5 + rank * 3 + salt) % 4));
  const Array array = Array::from(values, {3, 4}).to(dtype).to(device);
  return dense ? array : array.clone().transpose(0, 1);
}

struct Results {
  std::vector<std::string> names;
  std::vector<std::vector<double>> values;
};

// One operation of each kind, from every root.
Results all_operations(const Group& group, Device device, DType dtype, bool dense) {
  const int size = group->size(), rank = group->rank();
  Results results;
  const auto keep = [&](const std::string& name, const Array& array) {
    results.names.push_back(name);
    results.values.push_back(array.to(Device{}).to_vector<double>());
  };
  const auto mine = [&](int salt) { return numbers(dtype, device, dense, rank, salt); };
  const auto one_a_rank = [&](int salt) {
    std::vector<Array> arrays;
    for (int r = 0; r < size; ++r) arrays.push_back(mine(salt + r));
    return arrays;
  };
  std::vector<ReduceOp> reductions{ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product};
  if (is_floating(dtype)) reductions.push_back(ReduceOp::mean);
  for (const auto op : reductions) {
    const auto number = std::to_string(static_cast<int>(op));
    const auto all = mine(1);
    group->all_reduce(all, op)->wait();
    keep("all_reduce " + number, all);
    const auto part = mine(2);
    group->reduce_scatter(part, one_a_rank(3), op)->wait();
    keep("reduce_scatter " + number, part);
    const auto on_root = mine(4);
    group->reduce(on_root, size - 1, op)->wait();
    keep("reduce " + number, on_root);
    if (!is_floating(dtype) || (op != ReduceOp::min && op != ReduceOp::max)) continue;
    const auto with_nan = [&](int salt) {
      const auto array = mine(salt);
      array.select(0, rank % 3).select(0, 0).fill(std::numeric_limits<double>::quiet_NaN());
      return array;
    };
    const auto marked = with_nan(17);
    group->all_reduce(marked, op)->wait();
    keep("all_reduce of NaN " + number, marked);
    const auto marked_on_root = with_nan(18);
    group->reduce(marked_on_root, 0, op)->wait();
    keep("reduce of NaN " + number, marked_on_root);
    std::vector<Array> parts;
    for (int r = 0; r < size; ++r) parts.push_back(with_nan(19 + r));
    const auto marked_part = mine(2);
    group->reduce_scatter(marked_part, parts, op)->wait();
    keep("reduce_scatter of NaN " + number, marked_part);
  }
  for (int root = 0; root < size; ++root) {
    const auto text = " with root " + std::to_string(root);
    const auto sent = mine(5);
    group->broadcast(sent, root)->wait();
    keep("broadcast" + text, sent);
    const auto gathered = rank == root ? one_a_rank(6) : std::vector<Array>();
    group->gather(gathered, mine(7), root)->wait();
    for (const auto& array : gathered) keep("gather" + text, array);
    const auto scattered = mine(8);
    group->scatter(scattered, rank == root ? one_a_rank(9) : std::vector<Array>(), root)->wait();
    keep("scatter" + text, scattered);
  }
  const auto all = one_a_rank(10);
  group->all_gather(all, mine(11))->wait();
  for (const auto& array : all) keep("all_gather", array);
  const auto rows = Array::empty({size, 3, 4}, dtype, device);
  std::vector<Array> views;
  for (int r = 0; r < size; ++r) views.push_back(rows.select(0, r));
  group->all_gather(views, numbers(dtype, device, true, rank, 12))->wait();
  keep("all_gather of rows", rows);
  const auto exchanged = one_a_rank(13);
  group->all_to_all(exchanged, one_a_rank(14))->wait();
  for (const auto& array : exchanged) keep("all_to_all", array);
  group->barrier()->wait();
  if (size == 1) return results;

  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  const auto received = mine(15);
  auto message = mine(16);
  const auto sent = group->send(message, next);
  message.fill(1);  // changes nothing that is already sent
  group->receive(received, previous)->wait();
  sent->wait();
  keep("send and receive", received);
  return results;
}

void expect_same_operations(const Group& host, const Group& group, Device device, const std::vector<DType>& dtypes) {
  for (const auto dtype : dtypes) {
    for (const bool dense : {true, false}) {
      const auto expected = all_operations(host, Device{}, dtype, dense);
      const auto found = all_operations(group, device, dtype, dense);
      ASSERT_EQ(expected.names, found.names);
      for (std::size_t i = 0; i < expected.values.size(); ++i) {
        ASSERT_EQ(expected.values[i].size(), found.values[i].size());
        for (std::size_t k = 0; k < expected.values[i].size(); ++k) {
          const std::string where = expected.names[i] + ", rank " + std::to_string(host->rank());
          ASSERT_EQ(std::isnan(expected.values[i][k]), std::isnan(found.values[i][k])) << where << " of " << dtype;
          if (std::isnan(expected.values[i][k])) continue;
          // Only a mean may not be a whole number.
          const bool is_mean = expected.names[i].ends_with(std::to_string(static_cast<int>(ReduceOp::mean)));
          const double tolerance = is_mean && is_floating(dtype) ? 0.02 : 0;
          ASSERT_NEAR(expected.values[i][k], found.values[i][k], tolerance)
              << where << " of " << dtype << (dense ? "" : ", strided");
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, NcclRanks, ::testing::Values(1, 2, 3), ::testing::PrintToStringParamName());

TEST_P(NcclRanks, every_operation_gives_what_it_gives_in_host_memory) {
  testing::run_ranks(GetParam(), [&](Group host) {
    expect_same_operations(
        host, over_nccl(host), gpu_of_rank(host->rank()),
        {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8, DType::boolean});
  });
}

TEST(NcclGroup, host_groups_take_arrays_on_gpus_too) {
  NEEDS_GPUS(2);
  for (const char* backend : {"shm", "gloo"}) {
    testing::run_ranks(
        2,
        [](Group host) {
          expect_same_operations(host, host, gpu_of_rank(host->rank()), {DType::f32, DType::boolean});
        },
        seconds(60), backend);
  }
}

TEST(NcclGroup, texts_and_subgroups) {
  NEEDS_GPUS(3);
  run_gpu_ranks(3, [](Group group) {
    EXPECT_STREQ(group->backend(), "nccl");
    const auto texts = group->all_gather_strings(std::string(static_cast<std::size_t>(group->rank()), 'x'));
    for (int r = 0; r < 3; ++r) EXPECT_EQ(texts[r].size(), r);
    const auto part = group->subgroup({2, 0});
    ASSERT_EQ(part == nullptr, group->rank() == 1);
    if (!part) return;
    auto array = ops::full({5}, group->rank() + 1, DType::f32, gpu_of_rank(group->rank()));
    part->all_reduce(array)->wait();
    EXPECT_EQ(array.to_vector<float>(), std::vector<float>(5, 4));
  });
}

TEST(NcclGroup, arrays_must_be_on_the_gpu_of_the_group) {
  NEEDS_GPUS(2);
  run_gpu_ranks(2, [](Group group) {
    const auto elsewhere = ops::zeros({3}, DType::f32, gpu_of_rank(1 - group->rank()));
    try {
      group->all_reduce(elsewhere)->wait();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("cuda:" + std::to_string(1 - group->rank())), std::string::npos);
    }
  });
}

TEST(NcclGroup, waiting_is_the_gpus_matter_not_the_hosts) {
  NEEDS_GPUS(2);
  std::atomic<bool> waited{false};
  run_gpu_ranks(2, [&](Group group) {
    const Device device = gpu_of_rank(group->rank());
    auto array = ops::ones({1000}, DType::f32, device);
    group->all_reduce(array)->wait();  // connects the GPUs
    synchronize(device);
    if (group->rank() == 1) await(waited);
    const auto work = group->all_reduce(array, ReduceOp::sum, "late");
    if (group->rank() == 0) {
      EXPECT_FALSE(work->is_done());
      try {
        work->wait(milliseconds(20));
        ADD_FAILURE() << "rank 1 has not come, and the wait has ended";
      } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "all_reduce 'late' is not done after 0.02 s");
      }
      work->wait();
      EXPECT_FALSE(work->is_done());
      waited = true;
    } else {
      work->wait();
    }
    EXPECT_EQ(array.to_vector<float>(), std::vector<float>(1000, 4));
    EXPECT_TRUE(work->is_done());
    EXPECT_FALSE(work->exception());
  });
}

TEST(NcclGroup, arrays_live_until_the_gpu_has_done_with_them) {
  NEEDS_GPUS(2);
  std::atomic<bool> looked{false};
  run_gpu_ranks(2, [&](Group group) {
    const Device device = gpu_of_rank(group->rank());
    auto array = ops::ones({1000}, DType::f32, device);
    group->all_reduce(array)->wait();
    synchronize(device);
    if (group->rank() == 1) await(looked);
    const std::weak_ptr<Storage> storage = array.storage();
    const auto work = group->all_reduce(std::exchange(array, Array()));
    if (group->rank() == 0) {
      EXPECT_FALSE(storage.expired());
      looked = true;
    }
    work->wait(seconds(20));
    EXPECT_TRUE(storage.expired());
  });
}

TEST_P(NcclRanks, memory_for_gradients_is_known_to_nccl_and_may_outlive_the_group) {
  const int size = GetParam();
  run_gpu_ranks(size, [size](Group group) {
    const Device device = gpu_of_rank(group->rank());
    auto array = group->allocate({100}, DType::f32, device);
    EXPECT_EQ(array.device(), device);
    EXPECT_EQ(array.to_vector<float>(), std::vector<float>(100, 0));
    array.fill(1);
    group->all_reduce(array)->wait();
    EXPECT_TRUE(group->allocate({3}, DType::f32).device().is_cpu());
    group->barrier()->wait();
    group.reset();
    EXPECT_EQ(array.to_vector<float>(), std::vector<float>(100, static_cast<float>(size)));
  });
}

TEST_P(NcclRanks, a_cuda_graph_holds_operations) {
  const auto size = static_cast<float>(GetParam());
  run_gpu_ranks(GetParam(), [size](Group group) {
    const Device device = gpu_of_rank(group->rank());
    auto array = ops::ones({8}, DType::f32, device);
    group->all_reduce(array)->wait();
    synchronize(device);
    cudaStream_t stream = nullptr;
    TANDEM_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaGraph_t graph = nullptr;
    {
      const cuda::StreamGuard guard(stream);
      TANDEM_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      ops::scale_(array, 0.5);
      const auto work = group->all_reduce(array, ReduceOp::sum, "recorded");
      work->wait();
      ops::scale_(array, 3);
      TANDEM_CUDA(cudaStreamEndCapture(stream, &graph));
    }
    cudaGraphExec_t executable = nullptr;
    TANDEM_CUDA(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 3; ++i) TANDEM_CUDA(cudaGraphLaunch(executable, stream));
    TANDEM_CUDA(cudaStreamSynchronize(stream));
    const float times = 0.5f * size * 3;  // a replay multiplies by this factor
    EXPECT_EQ(array.to_vector<float>(), std::vector<float>(8, size * times * times * times));
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
  });
}

}  // namespace
}  // namespace tandem::distributed
