// Tests training over NCCL. Gradients and statistics equal those of the same training in host memory.
#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/ddp/sync_batch_norm.h>
#include <tandem/distributed/strategies/data_parallel.h>
#include <tandem/nn/activations.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/sequential.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>
#include <support/ranks.h>
#include <support/small_training.h>
#ifdef TANDEM_EMULATED_CUDA
#include <nccl.h>
#endif

#include <algorithm>

#include "gpu_ranks.h"

namespace tandem::distributed {
namespace {

using testing::gpu_of_rank;
using testing::Group;
using testing::over_nccl;
using testing::run_gpu_ranks;

Array noise_array(const Shape& shape, int begin, Device device) {
  return testing::noise_array(shape, begin).to(device);
}

// All layers are element-wise, because this tests the path of the gradients, not the layers.
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
  DistributedDataParallel ddp(model, group, {.buckets = {.first_bytes = 64, .bytes = 512}});
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
      EXPECT_NE(std::string(error.what()).find("rank 1: 1 of 4 parameters got no gradient"), std::string::npos)
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
      const Array mine = noise_array({15}, rank, device);
      Array(mine.slice(0, 14, 15)).fill(3 + rank);
      BatchNormUpdate update{noise_array({7}, 3, device), noise_array({7}, 4, device), {}, 0.1, 1e-5};
      const auto stats = ops::batch_norm_combine(exchange->gather(mine), update);
      const Array own = noise_array({2, 7}, rank + 9, device);
      const auto sums = ops::unpack_batch_norm_sums(exchange->sum_over_ranks(own));
      EXPECT_EQ(own.to_vector<float>(), noise_array({2, 7}, rank + 9, device).to_vector<float>());
      std::vector<std::vector<double>> values;
      for (const Array& a :
           {stats.mean, stats.m2, stats.count, sums.dy, sums.dy_xhat, update.running_mean, update.running_var}) {
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

// The model has batch norm, which uses each GPU's images separately.
TEST(NcclGroup, ddp_and_data_parallel_train_alike) {
  NEEDS_GPUS(2);
  constexpr std::int64_t steps = 3, pictures = 3, classes = 5;
  const auto make = [] {
    manual_seed(0);
    return nn::Sequential{nn::Conv2d(3, 8, 3, {.padding = 2, .dilation = 2}),
                          nn::BatchNorm2d(8),
                          nn::ReLU(),
                          nn::Conv2d(8, 6, 3, {.stride = 2}),
                          nn::BatchNorm2d(6),
                          nn::ReLU(),
                          nn::Conv2d(6, classes, 1)};
  };
  // Returns the losses of training on `count` images of each step, starting at image `first`.
  const auto train = [](nn::Module& model, Device device, std::int64_t first, std::int64_t count, const auto& forward) {
    optim::SGD optimizer(model.parameters(), {.lr = 0.05, .momentum = 0.9});
    std::vector<double> losses;
    for (int step = 0; step < steps; ++step) {
      optimizer.zero_grad();
      const Array images = noise_array({2 * pictures, 3, 9, 9}, 100 * step, device);
      std::vector<std::int64_t> labels;
      for (std::int64_t i = 0; i < 2 * pictures * 4 * 4; ++i) labels.push_back((i / 3 + step) % classes);
      const Array masks = Array::from(labels, {2 * pictures, 4, 4}).to(device);
      const Tensor loss =
          cross_entropy(forward(Tensor(images.narrow(0, first, count))), masks.narrow(0, first, count), {});
      loss.backward();
      optimizer.step();
      losses.push_back(loss.item());
    }
    return losses;
  };
  auto model = make();
  model.to(gpu_of_rank(0));
  DataParallel parallel(model, [&] { return std::make_unique<nn::Sequential>(make()); },
                        {gpu_of_rank(0), gpu_of_rank(1)});
  const auto expected = train(model, gpu_of_rank(0), 0, 2 * pictures, [&](const Tensor& x) { return parallel(x); });
  run_gpu_ranks(2, [&](Group group) {
    const Device device = gpu_of_rank(group->rank());
    auto mine = make();
    mine.to(device);
    DistributedDataParallel ddp(mine, group);
    const auto losses =
        train(mine, device, pictures * group->rank(), pictures, [&](const Tensor& x) { return ddp(x); });
    for (std::size_t step = 0; step < steps; ++step) {
      const Array loss = ops::scalar(losses[step]).to(device);
      group->all_reduce(loss, ReduceOp::mean)->wait();
      EXPECT_NEAR(loss.item(), expected[step], 2e-5) << "step " << step;
    }
  });
}

#ifdef TANDEM_EMULATED_CUDA

// Forward has kernels for the statistics, the exchange and the normalised values. Backward has kernels for the sums,
// the gradient and two copies of sums. One copy becomes the sums over all ranks. The other one is a parameter's
// gradient, which is a row of the sums.
TEST(NcclGroup, sync_batch_norm_takes_few_kernels_and_one_collective_each_way) {
  std::int64_t launches[2] = {}, collectives[2] = {};
  run_gpu_ranks(2, [&](Group group) {
    const Device device = gpu_of_rank(group->rank());
    SyncBatchNorm norm(8, group);
    norm.to(device);
    const Tensor x(noise_array({4, 8, 5, 5}, 0, device).channels_last(), true);
    const Array gradient = noise_array({4, 8, 5, 5}, 1, device).channels_last();
    norm(x).backward({.gradient = gradient});  // connects the GPUs
    // Counts the calls of both ranks since the last count.
    const auto counted = [&](std::int64_t& kernels, std::int64_t& calls) {
      synchronize(device);
      group->barrier()->wait();
      if (group->rank() == 0) {
        const auto begins = [](const char* with) { return [=](const auto& line) { return line.starts_with(with); }; };
        const auto log = std::exchange(emulation::driver().log, {});
        kernels = std::ranges::count_if(log, begins("launch"));
        const auto nccl = emulation::nccl_state().log;
        calls = std::ranges::count_if(nccl, begins("all_"));
        emulation::clear_nccl_log();
      }
      group->barrier()->wait();
    };
    std::int64_t before[2] = {};
    counted(before[0], before[1]);
    const Tensor y = norm(x);
    counted(launches[0], collectives[0]);
    for (Tensor leaf : {x, norm.weight, norm.bias}) leaf.zero_grad();
    y.backward({.gradient = gradient});
    counted(launches[1], collectives[1]);
  });
  EXPECT_EQ(launches[0], 2 * 3);
  EXPECT_EQ(launches[1], 2 * 4);
  EXPECT_EQ(collectives[0], 2);
  EXPECT_EQ(collectives[1], 2);
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
  // Each rank has two communicators: it connects with the first without blocking, and continues with a second one,
  // split from the first, that includes all ranks.
  EXPECT_EQ(count("destroy"), 4);
  EXPECT_EQ(emulation::nccl_state().threads_started, 0);
  // One bucket has all parameters, and each parameter is aligned.
  EXPECT_EQ(std::count_if(log.begin(), log.end(), [](const auto& call) { return call.starts_with("all_reduce"); }), 2);
}

#endif

}  // namespace
}  // namespace tandem::distributed
