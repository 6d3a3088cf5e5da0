// What the ranks of a job do together gives on GPUs, over NCCL, what it gives in host memory. Ranks are threads, each with a
// GPU of its own.
#include <tandem/autograd/ops.h>
#include <tandem/core/backend.h>
#include <tandem/core/cuda/runtime.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/distributed_data_parallel.h>
#include <tandem/distributed/members.h>
#include <tandem/distributed/nccl_group.h>
#include <tandem/distributed/sync_batch_norm.h>

#include <gtest/gtest.h>
#include <support/ranks.h>
#ifdef TANDEM_EMULATED_CUDA
#include <nccl.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <future>
#include <utility>

namespace tandem::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Group;
using testing::message_of;

Device gpu_of_rank(int rank) { return Device::cuda(rank); }

Group over_nccl(const Group& host) { return nccl_group(host, gpu_of_rank(host->rank()), host->rank()); }

std::vector<std::exception_ptr> run_gpu_ranks_catching(int size, const std::function<void(Group)>& body,
                                                       milliseconds timeout = seconds(60)) {
  return testing::run_ranks_catching(
      size, [&](Group host) { body(over_nccl(host)); }, timeout);
}

void run_gpu_ranks(int size, const std::function<void(Group)>& body) {
  testing::run_ranks(size, [&](Group host) { body(over_nccl(host)); });
}

#define NEEDS_GPUS(count)                                                                             \
  if (device_count(Device::Kind::cuda) < (count))                                                     \
  GTEST_SKIP() << "NOT RUN: this needs " << (count) << " GPUs, one for each rank, and here are only " \
               << device_count(Device::Kind::cuda)

// Waits for what another rank does; the test fails rather than hangs.
void await(const std::atomic<bool>& flag) {
  const auto until = std::chrono::steady_clock::now() + seconds(20);
  while (!flag && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  ASSERT_TRUE(flag);
}

// --- Operations ---

// Small numbers, so that every order of adding gives the same; not the same on any two ranks.
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

  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  const auto received = mine(15);
  auto message = mine(16);
  const auto sent = group->send(message, next);
  message.fill(1);  // what was sent is sent
  group->receive(received, previous)->wait();
  sent->wait();
  keep("send and receive", received);
  return results;
}

void expect_same_operations(const Group& host, const Group& group, Device device,
                            const std::vector<DType>& dtypes) {
  for (const auto dtype : dtypes) {
    for (const bool dense : {true, false}) {
      const auto expected = all_operations(host, Device{}, dtype, dense);
      const auto found = all_operations(group, device, dtype, dense);
      ASSERT_EQ(expected.names, found.names);
      for (std::size_t i = 0; i < expected.values.size(); ++i) {
        ASSERT_EQ(expected.values[i].size(), found.values[i].size());
        for (std::size_t k = 0; k < expected.values[i].size(); ++k) {
          // Only a mean is no whole number.
          const bool is_mean = expected.names[i].ends_with(std::to_string(static_cast<int>(ReduceOp::mean)));
          const double tolerance = is_mean && is_floating(dtype) ? 0.02 : 0;
          ASSERT_NEAR(expected.values[i][k], found.values[i][k], tolerance)
              << expected.names[i] << " of " << dtype << (dense ? "" : ", strided") << ", rank "
              << host->rank();
        }
      }
    }
  }
}

TEST(NcclGroup, every_operation_gives_what_it_gives_in_host_memory) {
  for (const int size : {2, 3}) {
    NEEDS_GPUS(size);
    testing::run_ranks(size, [&](Group host) {
      expect_same_operations(host, over_nccl(host), gpu_of_rank(host->rank()),
                             {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64, DType::i32,
                              DType::u8, DType::boolean});
    });
  }
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
      group->all_reduce(elsewhere);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("cuda:" + std::to_string(1 - group->rank())),
                std::string::npos);
    }
  });
}

// --- Order and lifetime ---

TEST(NcclGroup, waiting_is_the_gpus_matter_not_the_hosts) {
  NEEDS_GPUS(2);
  std::atomic<bool> waited{false};
  run_gpu_ranks(2, [&](Group group) {
    const Device device = gpu_of_rank(group->rank());
    auto array = ops::ones({1000}, DType::f32, device);
    group->all_reduce(array)->wait();  // connects
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

TEST(NcclGroup, memory_for_gradients_is_known_to_nccl_and_may_outlive_the_group) {
  NEEDS_GPUS(2);
  run_gpu_ranks(2, [](Group group) {
    const Device device = gpu_of_rank(group->rank());
    auto array = group->allocate({100}, DType::f32, device);
    EXPECT_EQ(array.device(), device);
    EXPECT_EQ(array.to_vector<float>(), std::vector<float>(100, 0));
    array.fill(1);
    group->all_reduce(array)->wait();
    EXPECT_TRUE(group->allocate({3}, DType::f32).device().is_cpu());
    group->barrier()->wait();
    group.reset();
    EXPECT_EQ(array.to_vector<float>(), std::vector<float>(100, 2));
  });
}

TEST(NcclGroup, a_cuda_graph_holds_operations) {
  NEEDS_GPUS(2);
  run_gpu_ranks(2, [](Group group) {
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
    EXPECT_EQ(array.to_vector<float>(), std::vector<float>(8, 2 * 27));
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
  });
}

// --- Training ---

float noise(int index) { return static_cast<float>((index * 7919 + 104729) % 1999) / 1000.0f - 1; }

Array noise_array(const Shape& shape, int salt, Device device) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < shape.product(); ++i) values.push_back(noise(static_cast<int>(i) + salt));
  return Array::from(values, shape).to(device);
}

// Element by element: what it shows is the way of the gradients, not the layers.
class SmallNetwork : public nn::Module {
 public:
  explicit SmallNetwork(Device device, int salt) {
    weight1 = add_parameter("weight1", noise_array({12, 5}, salt, device));
    bias1 = add_parameter("bias1", noise_array({5}, salt + 1, device));
    weight2 = add_parameter("weight2", noise_array({12, 1}, salt + 2, device));
    unused = add_parameter("unused", noise_array({3}, salt + 3, device));
    seen = add_buffer("seen", noise_array({2}, salt + 4, device));
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = relu(x * weight1 + bias1) * weight2;
    return uses_all ? y + sum(unused) : y;
  }
  Tensor weight1, bias1, weight2, unused, seen;
  bool uses_all = true;
};

std::vector<float> train(const Group& group, Device device) {
  SmallNetwork model(device, 10 * group->rank());  // only rank 0's numbers count
  DistributedDataParallel ddp(model, group, {.first_bytes = 64, .bytes = 512});
  for (int step = 0; step < 4; ++step) {
    const Tensor y = ddp(Tensor(noise_array({12, 5}, 100 * step + group->rank(), device)));
    model.zero_grad();
    mean(y * y).backward();
    for (auto& [name, parameter] : model.parameters()) {
      Array value = parameter.value(), change = parameter.grad().clone();
      ops::scale_(change, -0.1);
      ops::add_(value, change);
    }
  }
  std::vector<float> values;
  for (const auto& [name, array] : model.state_dict()) {
    const auto v = array.to(Device{}).to_vector<float>();
    values.insert(values.end(), v.begin(), v.end());
  }
  return values;
}

TEST(NcclGroup, ddp_on_gpus_equals_ddp_on_cpus) {
  for (const int size : {2, 4}) {
    NEEDS_GPUS(size);
    testing::run_ranks(size, [](Group host) {
      const Device device = gpu_of_rank(host->rank());
      const auto expected = train(host, Device{});
      const auto over_host = train(host, device);
      const auto found = train(over_nccl(host), device);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        ASSERT_NEAR(found[i], expected[i], 2e-6) << "parameter " << i;
        ASSERT_NEAR(over_host[i], expected[i], 2e-6) << "parameter " << i << ", through the host";
      }
      const auto text = [](const std::vector<float>& v) {
        return std::string(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(float));
      };
      for (const auto& other : host->all_gather_strings(text(found))) EXPECT_TRUE(other == text(found));
    });
  }
}

TEST(NcclGroup, an_unused_parameter_is_named_at_the_end_of_that_backward) {
  NEEDS_GPUS(2);
  run_gpu_ranks(2, [](Group group) {
    const Device device = gpu_of_rank(group->rank());
    SmallNetwork model(device, 0);
    model.uses_all = group->rank() == 0;
    DistributedDataParallel ddp(model, group);
    const Tensor loss = mean(ddp(Tensor(noise_array({12, 5}, 0, device))));
    try {
      loss.backward();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("rank 1: 1 of 4 parameters got no gradient"),
                std::string::npos)
          << error.what();
    }
  });
}

TEST(NcclGroup, sync_batch_norm_combines_statistics_on_the_gpu) {
  NEEDS_GPUS(3);
  testing::run_ranks(3, [](Group host) {
    const auto combined = [&](const Group& group, Device device) {
      const auto exchange = batch_norm_exchange(group, "norm");
      const int rank = group->rank();
      const auto stats =
          exchange->combine({noise_array({7}, rank, device), noise_array({7}, rank + 50, device),
                             ops::scalar(3 + rank, DType::f32, device)});
      const auto sums =
          exchange->add({noise_array({7}, rank + 9, device), noise_array({7}, rank + 60, device)});
      std::vector<std::vector<double>> values;
      for (const Array& a : {stats.mean, stats.m2, stats.count, sums.dy, sums.dy_xhat}) {
        EXPECT_EQ(a.device(), device);
        values.push_back(a.to_vector<double>());
      }
      return values;
    };
    const auto expected = combined(host, Device{});
    const auto found = combined(over_nccl(host), gpu_of_rank(host->rank()));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(expected[i].size(), found[i].size());
      for (std::size_t k = 0; k < expected[i].size(); ++k) ASSERT_NEAR(expected[i][k], found[i][k], 1e-5);
    }
  });
}

// --- Failures ---

// What every rank but `absent` ends with when that one does not come to an operation: first the read that comes after it.
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
        // Nothing goes on afterwards, on the GPU or on the host.
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
    EXPECT_NE(texts[rank].find("has left while others wait in all_reduce 'last'"), std::string::npos)
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
    EXPECT_NE(texts[rank].find("did not come within 2.5 s to all_reduce 'last'"), std::string::npos)
        << texts[rank];
  }
}

TEST(NcclGroup, a_group_that_is_left_in_the_middle_breaks_off) {
  NEEDS_GPUS(2);
  const auto begin = std::chrono::steady_clock::now();
  const auto results = run_gpu_ranks_catching(2, [](Group group) {
    auto array = ops::ones({100}, DType::f32, gpu_of_rank(group->rank()));
    if (group->rank() == 0) {
      group->all_reduce(array);
      throw Error("a bug");
    }
    group->barrier()->wait();
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(15));
  EXPECT_EQ(message_of(results[0]), "a bug");
  EXPECT_NE(message_of(results[1]).find("rank 0 ("), std::string::npos) << message_of(results[1]);
}

TEST(NcclGroup, two_ranks_with_one_gpu_are_named_before_nccl_starts) {
  const auto share = [](Group host) { nccl_group(host, Device::cuda(0), host->rank()); };
  for (const auto& result : testing::run_ranks_catching(2, share)) {
    const auto text = message_of(result);
    EXPECT_NE(text.find("rank 0 ("), std::string::npos) << text;
    EXPECT_NE(text.find("and rank 1 ("), std::string::npos) << text;
    EXPECT_NE(text.find("have the same GPU, 0000:"), std::string::npos) << text;
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
      // Until all have heard of it.
      group->all_gather_strings("a");
      return;
    }
    group->all_reduce(array, ReduceOp::sum, "last")->wait();
    array.to_vector<float>();
  });
  emulation::set_nccl_failure(-1, ncclSuccess);
  for (const auto& result : results)
    EXPECT_NE(message_of(result).find("NCCL: remote process exited"), std::string::npos)
        << message_of(result);
}

TEST(NcclGroup, connecting_is_bounded_by_the_timeout) {
  emulation::set_nccl_absent(1);
  const auto results = run_gpu_ranks_catching(
      2, [](Group) {}, milliseconds(1000));
  emulation::set_nccl_absent(-1);
  for (const auto& result : results) {
    EXPECT_NE(message_of(result).find("connecting the GPUs with NCCL did not end within 1 s"),
              std::string::npos)
        << message_of(result);
  }
}

TEST(NcclGroup, a_peer_that_leaves_while_the_gpus_are_connected_is_named) {
  const auto begin = std::chrono::steady_clock::now();
  const auto results = testing::run_ranks_catching(2, [&](Group host) {
    if (host->rank() == 0) {
      over_nccl(host);
      return;
    }
    // As far as a rank comes before it connects.
    auto store = prefix_store("nccl", host->store());
    meet(*store, 1, 2, 1, "", seconds(10));
    host->all_gather_strings("a GPU");
    host->broadcast_string("", 0);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(15));
  const auto text = message_of(results[0]);
  EXPECT_NE(text.find("rank 1 ("), std::string::npos) << text;
  EXPECT_NE(text.find("has left while others wait in connecting the GPUs with NCCL"), std::string::npos)
      << text;
}

TEST(NcclGroup, what_the_emulated_nccl_was_asked_for) {
  emulation::clear_nccl_log();
  run_gpu_ranks(2, [](Group group) {
    const Device device = gpu_of_rank(group->rank());
    SmallNetwork model(device, 0);
    {
      DistributedDataParallel ddp(model, group);
      mean(ddp(Tensor(noise_array({12, 5}, 0, device)))).backward();
    }
    synchronize(device);
  });
  const auto log = emulation::nccl_state().log;
  const auto count = [&](const std::string& call) { return std::count(log.begin(), log.end(), call); };
  EXPECT_GE(count("register"), 2);
  EXPECT_EQ(count("abort"), 0);
  EXPECT_EQ(count("destroy"), 2);
  // One bucket, of all parameters, each of them on a border of its own.
  EXPECT_EQ(
      std::count_if(log.begin(), log.end(), [](const auto& call) { return call.starts_with("all_reduce"); }),
      2);
}

TEST(NcclGroup, a_shared_gpu_can_be_allowed) {
  setenv("TANDEM_ALLOW_SHARED_GPU", "1", 1);
  testing::run_ranks(2, [](Group host) {
    const auto group = nccl_group(host, Device::cuda(0), host->rank());
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
