// Tests failures of a group over NCCL. All other ranks name, in time, the rank that left, hung or never came.
#include <tandem/core/backend/device_graph.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/groups/members.h>
#include <tandem/distributed/store/store.h>

#include <gtest/gtest.h>
#include <support/ranks.h>
#ifdef TANDEM_EMULATED_CUDA
#include <nccl.h>
#endif

#include <cstdlib>
#include <future>
#include <thread>

#include "gpu_ranks.h"

namespace tandem::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::gpu_of_rank;
using testing::Group;
using testing::message_of;
using testing::NcclRanks;
using testing::over_nccl;
using testing::run_gpu_ranks_catching;

// Returns the errors of all ranks except `absent`, which does `instead` and does not join an operation. Each text
// begins with the error of the next read.
std::vector<std::string> errors_without(int absent, int size, milliseconds timeout,
                                        const std::function<void(Group)>& instead) {
  const auto results = run_gpu_ranks_catching(
      size,
      [&](Group group) {
        const Device device = gpu_of_rank(group->rank());
        auto array = ops::ones({100}, DType::f32, device);
        group->all_reduce(array)->wait();
        synchronize(device);
        if (group->rank() == absent) return instead(group);
        group->all_reduce(array, ReduceOp::sum, "last")->wait();
        std::string seen;
        try {
          array.to_vector<float>();
        } catch (const PeerError& error) {
          seen = error.what();
        }
        // No operation works afterwards, on the GPU or on the host.
        EXPECT_THROW(group->all_reduce(array)->wait(), PeerError);
        EXPECT_THROW(group->barrier()->wait(), PeerError);
        throw PeerError(seen);
      },
      timeout);
  std::vector<std::string> texts;
  for (const auto& result : results) texts.push_back(message_of(result));
  return texts;
}

TEST(NcclGroup, a_peer_that_leaves_is_named_on_all_others_at_once) {
  NEEDS_GPUS(3);
  const auto begin = std::chrono::steady_clock::now();
  const auto texts = errors_without(1, 3, seconds(60), [](Group) {});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(15));
  for (const int rank : {0, 2}) {
    EXPECT_NE(texts[rank].find("rank 1 ("), std::string::npos) << texts[rank];
    EXPECT_NE(texts[rank].find("has left while the other ranks wait in all_reduce 'last'"), std::string::npos)
        << texts[rank];
  }
}

TEST(NcclGroup, a_peer_that_does_not_come_is_named_after_the_timeout) {
  NEEDS_GPUS(3);
  const auto texts = errors_without(1, 3, milliseconds(2500), [&](Group group) {
    const auto until = std::chrono::steady_clock::now() + seconds(20);
    while (std::chrono::steady_clock::now() < until) {
      try {
        if (group->store()->check({"failure"})) break;
      } catch (const Error&) {
        break;
      }
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  for (const int rank : {0, 2}) {
    EXPECT_NE(texts[rank].find("rank 1 ("), std::string::npos) << texts[rank];
    EXPECT_NE(texts[rank].find("did not reach all_reduce 'last' within 2.5 s"), std::string::npos) << texts[rank];
  }
}

TEST(NcclGroup, a_group_that_is_left_in_the_middle_breaks_off) {
  NEEDS_GPUS(2);
  const auto begin = std::chrono::steady_clock::now();
  const auto results = run_gpu_ranks_catching(2, [](Group group) {
    auto array = ops::ones({100}, DType::f32, gpu_of_rank(group->rank()));
    group->all_reduce(array)->wait();  // connects the GPUs
    if (group->rank() == 0) {
      const auto work = group->all_reduce(array);
      throw Error("a bug");
    }
    group->barrier()->wait();
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(15));
  EXPECT_EQ(message_of(results[0]), "a bug");
  EXPECT_NE(message_of(results[1]).find("rank 0 ("), std::string::npos) << message_of(results[1]);
}

TEST(NcclGroup, two_ranks_with_one_gpu_are_named_before_nccl_starts) {
  const auto share = [](Group host) { nccl_group(host, Device::cuda(0), host->rank(), usual_observers()); };
  for (const auto& result : testing::run_ranks_catching(2, share)) {
    const auto text = message_of(result);
    EXPECT_NE(text.find("rank 0 ("), std::string::npos) << text;
    EXPECT_NE(text.find("and rank 1 ("), std::string::npos) << text;
    EXPECT_NE(text.find("have the same GPU, "), std::string::npos) << text;
  }
}

TEST(NcclGroup, a_rank_that_makes_no_group_is_named) {
  NEEDS_GPUS(2);
  std::promise<void> tried;
  const auto results = testing::run_ranks_catching(
      2,
      [&](Group host) {
        if (host->rank() == 1) return tried.get_future().wait();
        try {
          over_nccl(host);
        } catch (const Error&) {
          tried.set_value();
          throw;
        }
        tried.set_value();
      },
      milliseconds(1000));
  EXPECT_NE(message_of(results[0]).find("rank 0 of 2 waited 1 s for rank 1"), std::string::npos)
      << message_of(results[0]);
}

// The first operation connects the GPUs. NCCL blocks the host during this time, and forever if a peer does not come.
TEST(NcclGroup, the_first_operation_is_bounded_by_the_timeout_too) {
  NEEDS_GPUS(2);
  const auto results = run_gpu_ranks_catching(
      2,
      [](Group group) {
        auto array = ops::ones({100}, DType::f32, gpu_of_rank(group->rank()));
        if (group->rank() == 0) group->all_reduce(array, ReduceOp::sum, "first")->wait();
        else group->barrier()->wait();
      },
      milliseconds(3000));
  const auto text = message_of(results[0]);
  EXPECT_NE(text.find("rank 1 ("), std::string::npos) << text;
  EXPECT_NE(text.find("all_reduce 'first'"), std::string::npos) << text;
}

// When a communicator ends, NCCL waits forever for graphs that hold its operations.
TEST_P(NcclRanks, a_recorded_step_that_outlives_its_group_can_not_be_repeated) {
  const auto size = static_cast<float>(GetParam());
  for (const bool fails : {false, true}) {
    if (fails && GetParam() == 1) continue;  // a single rank does not wait for others
    const auto results = run_gpu_ranks_catching(
        GetParam(),
        [&](Group group) {
          const Device device = gpu_of_rank(group->rank());
          auto array = ops::ones({8}, DType::f32, device);
          group->all_reduce(array)->wait();  // connects the GPUs
          synchronize(device);
          const auto graph = record_graph(device, [&] { group->all_reduce(array, ReduceOp::sum, "recorded")->wait(); });
          const auto local = record_graph(device, [&] { ops::scale_(array, 0.5); });
          graph->replay();
          local->replay();
          EXPECT_EQ(array.to_vector<float>(), std::vector<float>(8, size * size * 0.5f));
          group->barrier()->wait();
          if (fails) {
            if (group->rank() == 1) throw Error("a bug");  // this rank leaves, and the others wait in vain
            graph->replay();
            EXPECT_THROW(array.to_vector<float>(), PeerError);
          }
          group.reset();
          try {
            graph->replay();
            ADD_FAILURE() << "a graph was replayed without its group";
          } catch (const PeerError& error) {
            const std::string text = error.what();
            EXPECT_NE(text.find("a recorded step can't be replayed any more: "), std::string::npos) << text;
            EXPECT_NE(text.find(fails ? "rank 1 (" : "its process group was destroyed"), std::string::npos) << text;
          }
          if (!fails) {
            local->replay();
            EXPECT_EQ(array.to_vector<float>(), std::vector<float>(8, size * size * 0.25f));
          }
        },
        seconds(20));
    for (int rank = 0; rank < GetParam(); ++rank)
      EXPECT_EQ(message_of(results[static_cast<std::size_t>(rank)]), fails && rank == 1 ? "a bug" : "");
  }
}

TEST(NcclGroup, a_rank_that_repeats_a_recorded_step_once_more_than_others_does_not_hang) {
  NEEDS_GPUS(2);
  const auto results = run_gpu_ranks_catching(
      2,
      [&](Group group) {
        const Device device = gpu_of_rank(group->rank());
        auto array = ops::ones({8}, DType::f32, device);
        group->all_reduce(array)->wait();
        synchronize(device);
        const auto graph = record_graph(device, [&] { group->all_reduce(array, ReduceOp::sum, "recorded")->wait(); });
        graph->replay();
        array.to_vector<float>();
        if (group->rank() == 1) return;  // this rank leaves without an error
        graph->replay();
        array.to_vector<float>();
      },
      milliseconds(2000));
  EXPECT_NE(message_of(results[0]).find("rank 1 ("), std::string::npos) << message_of(results[0]);
  EXPECT_EQ(message_of(results[1]), "");
}

#ifdef TANDEM_EMULATED_CUDA

TEST(NcclGroup, an_error_of_nccl_ends_the_group_on_all_ranks) {
  const auto results = run_gpu_ranks_catching(2, [](Group group) {
    const Device device = gpu_of_rank(group->rank());
    auto array = ops::ones({100}, DType::f32, device);
    group->all_reduce(array)->wait();
    synchronize(device);
    group->barrier()->wait();
    if (group->rank() == 1) {
      emulation::set_nccl_failure(1, ncclRemoteError);
      // Returns only when all ranks have called it.
      group->all_gather_strings("a");
      return;
    }
    group->all_reduce(array, ReduceOp::sum, "last")->wait();
    array.to_vector<float>();
  });
  emulation::set_nccl_failure(-1, ncclSuccess);
  for (const auto& result : results)
    EXPECT_NE(message_of(result).find("NCCL: remote process exited"), std::string::npos) << message_of(result);
}

// Each rank creates a communicator, and a second one from the first. All of them must be ended.
TEST(NcclGroup, connecting_is_bounded_by_the_timeout) {
  for (const bool from_splits : {false, true}) {
    emulation::set_nccl_absent(1, from_splits);
    emulation::clear_nccl_log();
    const auto results = run_gpu_ranks_catching(
        2, [](Group) {}, milliseconds(1000));
    emulation::set_nccl_absent(-1);
    for (const auto& result : results) {
      EXPECT_NE(message_of(result).find("connecting the GPUs with NCCL did not end within 1 s"), std::string::npos)
          << message_of(result);
    }
    EXPECT_EQ(emulation::nccl_state().log, std::vector<std::string>(from_splits ? 4 : 2, "abort"));
  }
}

TEST(NcclGroup, a_peer_that_leaves_while_the_gpus_are_connected_is_named) {
  const auto begin = std::chrono::steady_clock::now();
  const auto results = testing::run_ranks_catching(2, [&](Group host) {
    if (host->rank() == 0) {
      over_nccl(host);
      return;
    }
    // The steps of a rank before it connects.
    auto store = prefix_store("nccl", host->store());
    collect_members(*store, 1, 2, {.rank = 1, .backend = "nccl"}, seconds(10));
    host->all_gather_strings("a GPU", "which GPU each rank has");
    host->broadcast_string("", 0, "NCCL's id");
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(15));
  const auto text = message_of(results[0]);
  EXPECT_NE(text.find("rank 1 ("), std::string::npos) << text;
  EXPECT_NE(text.find("has left while the other ranks wait in connecting the GPUs with NCCL"), std::string::npos)
      << text;
}

TEST(NcclGroup, slices_of_a_gpu_are_no_shared_gpu) {
  emulation::driver().are_slices = true;
  const auto results = testing::run_gpu_ranks_catching(2, [](Group group) { group->barrier()->wait(); });
  emulation::driver().are_slices = false;
  for (const auto& result : results) EXPECT_EQ(result, nullptr) << message_of(result);
}

TEST(NcclGroup, a_shared_gpu_can_be_allowed) {
  setenv("TANDEM_ALLOW_SHARED_GPU", "1", 1);
  testing::run_ranks(2, [](Group host) {
    const auto group = nccl_group(host, Device::cuda(0), host->rank(), usual_observers());
    auto array = ops::ones({10}, DType::f32, Device::cuda(0));
    group->barrier()->wait();
    group->all_reduce(array)->wait(seconds(20));
    EXPECT_EQ(array.to_vector<float>(), std::vector<float>(10, 2));
  });
  unsetenv("TANDEM_ALLOW_SHARED_GPU");
}

#endif

}  // namespace
}  // namespace tandem::distributed
