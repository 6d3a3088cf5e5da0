// Tests everything above the raw operations on the GPU: moving modules, optimizers, data sets, checkpoints, and a whole
// training run that must have the same results as on the CPU.
#include <tandem/autograd/functions.h>
#include <tandem/autograd/gradcheck.h>
#include <tandem/core/device/memory_stats.h>
#include <tandem/core/io/safetensors.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/data/loader.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/groups/local_group.h>
#include <tandem/distributed/job/observers.h>
#include <tandem/distributed/strategies/data_parallel.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/loss.h>
#include <tandem/nn/models/mnist.h>
#include <tandem/optim/graphed_step.h>
#include <tandem/optim/lr_scheduler.h>
#include <tandem/optim/sgd.h>
#ifdef TANDEM_EMULATED_CUDA
#include <cuda_runtime.h>
#endif

#include <gtest/gtest.h>

#include "support/ranks.h"
#include "support/small_training.h"
#include "support/temporary_folder.h"

#include <cmath>

#include "gpu_ranks.h"

namespace tandem {
namespace {

using testing::NcclRanks;
using testing::noise;
using testing::Samples;

const Device cuda = Device::cuda(0);

// A network for 8 x 8 images, without convolution, normalisation or pooling.
nn::Sequential perceptron() {
  return nn::Sequential{nn::Flatten(), nn::Linear(64, 16), nn::ReLU(), nn::Linear(16, 10)};
}

std::vector<float> bits(const Array& array) { return array.to_vector<float>(); }

void expect_near(const std::vector<float>& expected, const std::vector<float>& found, double tolerance) {
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(expected[i], found[i], tolerance * std::max(1.0, std::abs(static_cast<double>(expected[i]))))
        << "at " << i;
}

TEST(CudaModule, MovesEverythingAndKeepsEveryHandle) {
  manual_seed(1);
  nn::models::MnistNet net;
  const Tensor weight = net.fc.weight;
  Tensor(weight).set_grad(ops::full(weight.shape(), 3));
  const auto before = net.state_dict();
  net.to(cuda);
  const auto after = net.state_dict();
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].name, after[i].name);
    EXPECT_EQ(after[i].array.device(), cuda) << after[i].name;
    EXPECT_EQ(before[i].array.to_vector<double>(), after[i].array.to_vector<double>()) << after[i].name;
  }
  EXPECT_TRUE(weight.same_as(net.fc.weight));
  EXPECT_EQ(weight.device(), cuda);
  EXPECT_EQ(weight.grad().device(), cuda);
  EXPECT_EQ(bits(weight.grad())[0], 3);
  EXPECT_TRUE(weight.requires_grad());
}

// The weights of convolutions become channels last when the module moves to a GPU. No later step changes their order.
TEST(CudaModule, WeightsOfConvolutionsLieAsTheirKernelsWantThem) {
  manual_seed(1);
  nn::models::MnistNet net;
  const Tensor weight = net.parameters()[4].tensor;
  ASSERT_EQ(weight.shape(), (Shape{32, 16, 5, 5}));
  const auto values = bits(weight.value());
  net.to(cuda);
  EXPECT_TRUE(weight.value().is_channels_last());
  EXPECT_EQ(bits(weight.value()), values);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  EXPECT_TRUE(weight.value().is_channels_last());
  const auto group = distributed::local_group();
  const distributed::DistributedDataParallel ddp(net, group);
  sum(net(Tensor(ops::ones({2, 1, 28, 28}, DType::f32, cuda)))).backward();
  EXPECT_TRUE(weight.grad().is_channels_last());
  // Files and the CPU store the weights row-major.
  const testing::TemporaryFolder folder;
  write_safetensors(folder.path() / "model.safetensors", net.state_dict());
  for (const auto& [name, array] : read_safetensors(folder.path() / "model.safetensors").arrays) {
    if (name == "layer2.0.weight") {
      EXPECT_EQ(bits(array), values);
    }
  }
  nn::models::MnistNet other;
  other.load_state_dict(net.state_dict());
  EXPECT_EQ(bits(other.parameters()[4].tensor.value()), values);
  nn::models::MnistNet back;
  back.to(cuda);
  back.load_state_dict(other.state_dict());
  back.to(Device{});
  EXPECT_TRUE(back.parameters()[4].tensor.value().is_contiguous());
  EXPECT_EQ(bits(back.parameters()[4].tensor.value()), values);
}

TEST(CudaModule, MovesBetweenTwoGpus) {
  NEEDS_GPUS(2);
  manual_seed(1);
  auto net = perceptron();
  const auto before = bits(net.state_dict()[0].array);
  net.to(cuda);
  net.to(Device::cuda(1));
  EXPECT_EQ(net.state_dict()[0].array.device(), Device::cuda(1));
  EXPECT_EQ(bits(net.state_dict()[0].array), before);
  net.to(Device{});
  EXPECT_EQ(bits(net.state_dict()[0].array), before);
}

TEST(CudaModule, StaysWhereACommunicationBucketIs) {
  Tensor parameter(ops::zeros({3}), true);
  parameter.set_grad_buffer(ops::zeros({3}));
  EXPECT_THROW(parameter.move_to(cuda), Error);
}

TEST(CudaTensor, ToIsDifferentiable) {
  const Tensor x(Array::from(std::vector<float>{1, -2, 3}, {3}), true);
  const Tensor there = x.to(cuda);
  EXPECT_EQ(there.device(), cuda);
  EXPECT_FALSE(there.is_leaf());
  sum(there * there).backward();
  EXPECT_TRUE(x.grad().device().is_cpu());
  EXPECT_EQ(bits(x.grad()), (std::vector<float>{2, -4, 6}));
  EXPECT_TRUE(there.to(cuda).same_as(there));
}

TEST(CudaTensor, AGradientFromTheWrongDeviceIsAnError) {
  const Tensor x(ops::ones({3}, DType::f32, cuda), true);
  EXPECT_THROW(Tensor(x * 2.0).backward({.gradient = ops::ones({3})}), Error);
  EXPECT_THROW(Tensor(x).set_grad(ops::ones({3})), Error);
  EXPECT_THROW(x + Tensor(ops::ones({3})), Error);
}

TEST(CudaTensor, Gradcheck) {
  std::vector<double> numbers;
  for (int i = 0; i < 6; ++i) numbers.push_back(0.2 + 0.3 * i);
  const Tensor a(Array::from(numbers, {2, 3}).to(cuda), true);
  const Tensor b(Array::from(std::vector<double>{0.5, 1.5, 2.5}, {3}).to(cuda), true);
  gradcheck([](const std::vector<Tensor>& in) { return log(in[0] * in[1]) + tanh(in[0]) / in[1]; }, {a, b});
  EXPECT_EQ(a.value().to_vector<double>(), numbers);  // unchanged
}

TEST(CudaOptimizer, RefusesAModelThatMovedAfterwards) {
  auto net = perceptron();
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  net.to(cuda);
  net.parameters()[0].tensor.set_grad(ops::ones(net.parameters()[0].tensor.shape(), DType::f32, cuda));
  EXPECT_THROW(optimizer.step(), Error);
}

struct Training {
  nn::Module& model;
  Device device;
  optim::SGD optimizer{model.parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3}};
  const nn::CrossEntropyLoss criterion{};
  GraphedStep step;
  std::vector<std::string> reports{};

  Training(nn::Module& net, Device where, bool graph = false)
      : model((net.to(where), net)),
        device(where),
        step(
            graph ? where : Device{},
            [this](const std::vector<Array>& batch) {
              optimizer.zero_grad();
              const Tensor loss = criterion(model(batch[0]), batch[1]);
              loss.backward();
              optimizer.step();
              return loss.value();
            },
            [this](const std::string& why) { reports.push_back(why); }) {}

  // Returns the losses of all batches. They stay on the device until the end.
  std::vector<float> run(const std::vector<std::pair<Array, Array>>& batches) {
    std::vector<Array> losses;
    for (const auto& [images, labels] : batches) losses.push_back(step({images, labels}).clone());
    std::vector<float> numbers;
    for (const Array& loss : losses) numbers.push_back(static_cast<float>(loss.item()));
    return numbers;
  }
};

std::vector<std::pair<Array, Array>> batches_on(Device device, int count, std::int64_t size) {
  std::vector<std::pair<Array, Array>> batches;
  for (int i = 0; i < count; ++i) {
    const Samples samples(i * size, size);
    batches.emplace_back(samples.images.to(device), samples.labels.to(device));
  }
  return batches;
}

TEST(CudaTraining, GoesAsOnTheCpu) {
  manual_seed(0);
  auto here = perceptron();
  manual_seed(0);
  auto there = perceptron();
  Training on_cpu(here, {}), on_gpu(there, cuda);
  expect_near(on_cpu.run(batches_on({}, 20, 8)), on_gpu.run(batches_on(cuda, 20, 8)), 1e-4);
  const auto expected = here.state_dict(), found = there.state_dict();
  for (std::size_t i = 0; i < expected.size(); ++i) expect_near(bits(expected[i].array), bits(found[i].array), 1e-4);
}

TEST(CudaTraining, ARecordedStepGivesTheSameBits) {
  manual_seed(0);
  auto plain = perceptron();
  manual_seed(0);
  auto graphed = perceptron();
  Training step_by_step(plain, cuda), recorded(graphed, cuda, true);
  const auto batches = batches_on(cuda, 20, 8);
  const auto expected = step_by_step.run(batches);
  EXPECT_EQ(recorded.run(batches), expected);
  EXPECT_TRUE(recorded.step.is_recorded());
  for (std::size_t i = 0; i < plain.state_dict().size(); ++i)
    EXPECT_EQ(bits(plain.state_dict()[i].array), bits(graphed.state_dict()[i].array));
  EXPECT_TRUE(recorded.reports.empty()) << recorded.reports[0];
}

TEST(CudaTraining, ARecordedStepFollowsASchedule) {
  manual_seed(0);
  auto plain = perceptron();
  manual_seed(0);
  auto graphed = perceptron();
  Training step_by_step(plain, cuda), recorded(graphed, cuda, true);
  const optim::OneCycleLR cycle{.max_lr = 0.1, .total_steps = 20};  // cycles the learning rate and the momentum
  optim::LrScheduler plain_schedule(step_by_step.optimizer, cycle), schedule(recorded.optimizer, cycle);
  for (const auto& batch : batches_on(cuda, 20, 8)) {
    EXPECT_EQ(recorded.run({batch}), step_by_step.run({batch}));
    plain_schedule.step();
    schedule.step();
  }
  EXPECT_TRUE(recorded.step.is_recorded());
  for (std::size_t i = 0; i < plain.state_dict().size(); ++i)
    EXPECT_EQ(bits(plain.state_dict()[i].array), bits(graphed.state_dict()[i].array));
  EXPECT_TRUE(recorded.reports.empty()) << recorded.reports[0];
}

TEST(CudaTraining, ASteadyStepAsksForNoMemory) {
  manual_seed(0);
  auto net = perceptron();
  Training training(net, cuda);
  const auto batches = batches_on(cuda, 6, 8);
  training.run(batches);
  const auto before = memory_stats(cuda).system_requests;
  training.run(batches);
  EXPECT_EQ(memory_stats(cuda).system_requests, before);
}

#ifdef TANDEM_EMULATED_CUDA
// Returns the driver calls of one step of `training`.
std::vector<std::string> calls_of_a_step(Training& training, const std::pair<Array, Array>& batch) {
  emulation::driver().log.clear();
  training.step({batch.first, batch.second});
  return std::exchange(emulation::driver().log, {});
}

TEST(CudaTraining, AStepNeverWaitsForTheGpu) {
  manual_seed(0);
  auto net = perceptron();
  Training training(net, cuda);
  const auto batches = batches_on(cuda, 4, 8);
  training.run(batches);
  for (const auto& call : calls_of_a_step(training, batches[0]))
    EXPECT_EQ(call.find("synchronize"), std::string::npos) << call;
}

TEST(CudaTraining, ARecordedStepIsThreeCalls) {
  manual_seed(0);
  auto net = perceptron();
  Training training(net, cuda, true);
  const auto batches = batches_on(cuda, 6, 8);
  training.run(batches);
  const auto calls = calls_of_a_step(training, batches[0]);
  EXPECT_EQ(calls.size(), 3u);  // images, labels, everything else
  EXPECT_EQ(calls.back(), "launch graph");
}
#endif

TEST(CudaTraining, MnistNetGoesAsOnTheCpu) {
  manual_seed(0);
  nn::models::MnistNet here;
  manual_seed(0);
  nn::models::MnistNet there;
  Training on_cpu(here, {}), on_gpu(there, cuda, true);
  std::vector<std::pair<Array, Array>> batches, batches_there;
  // Rounding differences grow from step to step. They grow faster if a batch norm sees fewer images: after 20 steps of
  // two images, two CPUs differ by 1.4e-3.
  for (int i = 0; i < 4; ++i) {
    const std::int64_t size = 16, pixels = size * 28 * 28;
    std::vector<float> images;
    std::vector<std::int64_t> labels;
    for (std::int64_t k = 0; k < pixels; ++k) images.push_back(noise(i * pixels + k));
    for (std::int64_t k = 0; k < size; ++k) labels.push_back((i * size + k) * 7 % 10);
    batches.emplace_back(Array::from(images, {size, 1, 28, 28}), Array::from(labels, {size}));
    batches_there.emplace_back(batches.back().first.to(cuda), batches.back().second.to(cuda));
  }
  on_gpu.run({batches_there[0]});
  on_cpu.run({batches[0]});
  expect_near(on_cpu.run(batches), on_gpu.run(batches_there), 1e-3);
  EXPECT_TRUE(on_gpu.reports.empty()) << on_gpu.reports[0];
}

TEST(CudaTraining, GoesOnElsewhereFromItsCheckpoint) {
  const testing::TemporaryFolder folder;
  manual_seed(0);
  auto net = perceptron();
  Training first(net, cuda);
  first.run(batches_on(cuda, 4, 8));
  write_safetensors(folder.path() / "model.safetensors", net.state_dict());
  write_safetensors(folder.path() / "optimizer.safetensors", first.optimizer.state_dict());
  const auto expected = first.run(batches_on(cuda, 4, 8));
  for (const Device device : {Device{}, cuda}) {
    auto other = perceptron();
    Training second(other, device);
    other.load_state_dict(read_safetensors(folder.path() / "model.safetensors").arrays);
    second.optimizer.load_state_dict(read_safetensors(folder.path() / "optimizer.safetensors").arrays);
    expect_near(expected, second.run(batches_on(device, 4, 8)), 1e-5);
  }
}

// A data set of 40 images in a GPU's memory. All pixels of an image have the same value.
class Shades : public data::Dataset {
 public:
  explicit Shades(Device device) {
    std::vector<std::uint8_t> values;
    std::vector<std::int64_t> labels;
    for (int i = 0; i < 40; ++i) {
      for (int k = 0; k < 4; ++k) values.push_back(static_cast<std::uint8_t>(i));
      labels.push_back(i % 10);
    }
    images_ = Array::from(values, {40, 1, 2, 2}).to(device);
    labels_ = Array::from(labels, {40}).to(device);
  }
  std::int64_t size() const override { return 40; }
  Device device() const override { return images_.device(); }
  data::Batch get(std::span<const std::int64_t> indices) const override {
    return gather(Array::from(indices, {static_cast<std::int64_t>(indices.size())}).to(device()));
  }
  data::Batch gather(const Array& indices) const override {
    return {ops::gather_normalized(images_, indices), ops::gather_rows(labels_, indices)};
  }

 private:
  Array images_, labels_;
};

TEST(CudaLoader, GivesTheSameBatchesAsOnTheCpu) {
  const Shades here({}), there(cuda);
  data::DistributedSampler sampler(40, {.rank = 1, .world = 2, .seed = 3});
  data::Loader loader(here, sampler, {.batch_size = 6}), device_loader(there, sampler, {.batch_size = 6, .workers = 2});
  loader.skip(1);
  device_loader.skip(1);
  std::vector<data::Batch> expected;
  for (auto& batch : loader) expected.push_back(batch);
  std::size_t i = 0;
  for (auto& [images, labels] : device_loader) {
    ASSERT_LT(i, expected.size());
    EXPECT_EQ(images.device(), cuda);
    EXPECT_EQ(bits(images), bits(expected[i].inputs));
    EXPECT_EQ(labels.to_vector<std::int64_t>(), expected[i].targets.to_vector<std::int64_t>());
    ++i;
  }
  EXPECT_EQ(i, expected.size());
}

#ifdef TANDEM_EMULATED_CUDA
TEST(CudaLoader, SendsTheOrderOnceAnEpoch) {
  const Shades there(cuda);
  data::DistributedSampler sampler(40, {.rank = 0, .world = 1, .seed = 3});
  data::Loader loader(there, sampler, {.batch_size = 4});
  emulation::driver().log.clear();
  int batches = 0;
  for (auto& batch : loader) batches += batch.targets.dim(0) == 4;
  EXPECT_EQ(batches, 10);
  int uploads = 0;
  for (const auto& call : emulation::driver().log) uploads += call.starts_with("copy");
  EXPECT_EQ(uploads, 1);
}
#endif

// Several ranks, each with a GPU and a part of each batch, train like one rank with whole batches.
TEST_P(NcclRanks, RecordTheirStepsWithTheReductionsInThem) {
  const int size = GetParam();
  constexpr std::int64_t part = 4;
  constexpr int steps = 12;
  manual_seed(0);
  auto alone = perceptron();
  Training whole(alone, cuda);
  const auto expected = whole.run(batches_on(cuda, steps, size * part));

  std::vector<std::vector<float>> losses(static_cast<std::size_t>(size));
  testing::run_ranks(size, [&](testing::Group host) {
    const int rank = host->rank();
    const Device device = Device::cuda(rank);
    const auto group = distributed::nccl_group(host, device, rank, distributed::usual_observers());
    manual_seed(static_cast<std::uint64_t>(rank));  // all ranks start with rank 0's weights
    auto net = perceptron();
    net.to(device);
    distributed::DistributedDataParallel ddp(net, group);
    optim::SGD optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3});
    const nn::CrossEntropyLoss criterion;
    GraphedStep step(
        device,
        [&](const std::vector<Array>& batch) {
          optimizer.zero_grad();
          const Tensor loss = criterion(ddp(batch[0]), batch[1]);
          loss.backward();
          optimizer.step();
          return loss.value();
        },
        [](const std::string& why) { ADD_FAILURE() << why; });
    for (int i = 0; i < steps; ++i) {
      const Samples samples((size * i + rank) * part, part);
      const Array loss = step({samples.images.to(device), samples.labels.to(device)}).clone();
      group->all_reduce(loss, distributed::ReduceOp::mean)->wait();
      losses[static_cast<std::size_t>(rank)].push_back(static_cast<float>(loss.item()));
    }
    EXPECT_TRUE(step.is_recorded());
  });
  expect_near(expected, losses[0], 1e-4);
  for (const auto& other : losses) EXPECT_EQ(other, losses[0]);
}

TEST(CudaDataParallel, TwoGpusGiveTheGradientsOfOne) {
  NEEDS_GPUS(2);
  manual_seed(0);
  auto alone = perceptron();
  alone.to(cuda);
  manual_seed(0);
  auto model = perceptron();
  model.to(cuda);
  distributed::DataParallel parallel(model, [] { return std::make_unique<nn::Sequential>(perceptron()); },
                                     {cuda, Device::cuda(1)});
  const Samples samples(0, 7);
  const nn::CrossEntropyLoss criterion;
  const Tensor images(samples.images, true);  // on the host: pieces go to the GPUs, and the gradient comes back
  const Tensor output = parallel(images);
  EXPECT_EQ(output.device(), cuda);
  const Tensor loss = criterion(output, samples.labels.to(cuda));
  loss.backward();
  const Tensor images_there(samples.images.to(cuda), true);
  const Tensor expected = criterion(alone(images_there), samples.labels.to(cuda));
  expected.backward();
  EXPECT_NEAR(loss.item(), expected.item(), 1e-6);
  for (std::size_t i = 0; i < model.parameters().size(); ++i)
    expect_near(bits(alone.parameters()[i].tensor.grad()), bits(model.parameters()[i].tensor.grad()), 1e-6);
  ASSERT_TRUE(images.grad().device().is_cpu());
  expect_near(bits(images_there.grad()), bits(images.grad()), 1e-6);
}

TEST(CudaDataParallel, EachGpusBatchNormSeesItsOwnPart) {
  NEEDS_GPUS(2);
  const auto convolutions = [] {
    return nn::Sequential{nn::Conv2d(1, 8, 3, {.padding = 1}), nn::BatchNorm2d(8), nn::ReLU(), nn::Conv2d(8, 4, 3),
                          nn::BatchNorm2d(4)};
  };
  manual_seed(0);
  auto alone = convolutions();
  alone.to(cuda);
  manual_seed(0);
  auto model = convolutions();
  model.to(cuda);
  distributed::DataParallel parallel(model, [&] { return std::make_unique<nn::Sequential>(convolutions()); },
                                     {cuda, Device::cuda(1)});
  const Tensor images(ops::randn({6, 1, 7, 9}).to(cuda));
  const Tensor weight(ops::randn({6, 4, 5, 7}).to(cuda));
  const Tensor output = parallel(images);
  sum(output * weight).backward();
  const Tensor expected = cat({alone(narrow(images, 0, 0, 3)), alone(narrow(images, 0, 3, 3))}, 0);
  sum(expected * weight).backward();
  expect_near(bits(expected.value()), bits(output.value()), 1e-5);
  for (std::size_t i = 0; i < model.parameters().size(); ++i)
    expect_near(bits(alone.parameters()[i].tensor.grad()), bits(model.parameters()[i].tensor.grad()), 1e-4);
}

TEST(CudaDataParallel, WantsTheModelOnTheFirstDevice) {
  auto model = perceptron();
  EXPECT_THROW(distributed::DataParallel(model, [] { return std::make_unique<nn::Sequential>(perceptron()); }, {cuda}),
               Error);
}

}  // namespace
}  // namespace tandem
