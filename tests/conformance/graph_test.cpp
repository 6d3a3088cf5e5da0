// Tests CUDA graphs: the recorded work, the driver calls and the memory of a replay, and steps that are not recorded.
#include <tandem/autograd/functions.h>
#include <tandem/core/backend/backend.h>
#include <tandem/core/backend/device_graph.h>
#include <tandem/core/ops.h>
#include <tandem/core/ops/gather_into.h>
#include <tandem/core/random/random.h>
#include <tandem/nn/recompute.h>
#include <tandem/optim/clip.h>
#include <tandem/optim/grad_scaler.h>
#include <tandem/optim/graphed_step.h>
#include <tandem/optim/sgd.h>
#ifdef TANDEM_EMULATED_CUDA
#include <cuda_runtime.h>
#endif

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace tandem {
namespace {

const Device cuda = Device::cuda(0);

Array of(std::vector<float> values) { return Array::from(values, {static_cast<std::int64_t>(values.size())}).to(cuda); }

// y = relu(x) * factor
Array relu_times(const Array& x, double factor) {
  return ops::map(functors::Affine{factor, 0}, ops::map(functors::Relu{}, x));
}

#ifdef TANDEM_EMULATED_CUDA
std::vector<std::string> take_log() { return std::exchange(emulation::driver().log, {}); }

std::int64_t count(const std::vector<std::string>& log, const std::string& beginning) {
  return std::count_if(log.begin(), log.end(), [&](const auto& line) { return line.starts_with(beginning); });
}
#endif

TEST(CudaGraph, RepeatsWhatWasRecordedOnNewValues) {
  const Array x = of({-1, 2, 3});
  Array y;
  const auto graph = record_graph(cuda, [&] { y = relu_times(x, 2); });
  graph->replay();
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 4, 6}));
  Array(x).copy_from(of({5, -6, 7}));
  graph->replay();
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{10, 0, 14}));
}

#ifdef TANDEM_EMULATED_CUDA  // the emulator logs its calls
TEST(CudaGraph, ReplayAsksTheDriverOnce) {
  const Array x = of({-1, 2, 3});
  Array y;
  take_log();
  relu_times(x, 2);
  const auto eager = take_log();
  const auto graph = record_graph(cuda, [&] { y = relu_times(x, 2); });
  const auto recorded = take_log();
  EXPECT_EQ(count(eager, "launch"), 2);
  EXPECT_EQ(count(recorded, "launch"), count(eager, "launch"));
  graph->replay();
  EXPECT_EQ(take_log(), std::vector<std::string>{"launch graph"});
}
#endif

TEST(CudaGraph, KeepsItsMemoryFromOthers) {
  const Array x = of(std::vector<float>(1000, 1));
  Array y;
  // The intermediate value is freed before the recording ends, but its memory must still belong to the graph.
  const auto graph = record_graph(cuda, [&] { y = relu_times(x, 3); });
  std::vector<Array> others;
  for (int i = 0; i < 8; ++i) others.push_back(ops::full({1000}, 7, DType::f32, cuda));
  graph->replay();
  for (const Array& other : others) EXPECT_EQ(other.to_vector<float>(), std::vector<float>(1000, 7));
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(1000, 3));
}

TEST(CudaGraph, GivesItsMemoryBack) {
  const Array x = of(std::vector<float>(5000, 1));
  std::uint64_t in_use = 0;
  for (int i = 0; i < 3; ++i) {
    Array y;
    auto graph = record_graph(cuda, [&] { y = relu_times(x, 3); });
    graph->replay();
    graph = nullptr;
    y = {};
    const auto now = memory_stats(cuda).bytes_in_use;
    EXPECT_EQ(now, i == 0 ? now : in_use);
    in_use = now;
  }
}

TEST(CudaGraph, RefusesToReadAValue) {
  const Array x = of({1, 2, 3});
  try {
    record_graph(cuda, [&] { ops::reduce(Reduction::sum, x).item(); });
    FAIL() << "recorded";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("can't read a value"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(is_recording_graph());
  // The failed recording does not affect later work.
  EXPECT_EQ(ops::reduce(Reduction::sum, x).item(), 6);
  Array y;
  const auto graph = record_graph(cuda, [&] { y = relu_times(x, 2); });
  graph->replay();
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{2, 4, 6}));
}

// Each error names the unsupported operation, and the GPU stays usable.
TEST(CudaGraph, RefusesWhatWouldNotBeRepeatedAndSaysWhy) {
  const Array x = of({1, -2, 3});
  Tensor weight(x.clone(), true);
  weight.set_grad(x);
  optim::SGD optimizer({{"weight", weight}}, {.lr = 0.1});
  optimizer.step();
  optim::GradScaler scaler;
  const std::vector<std::pair<std::function<void()>, std::string>> all = {
      {[&] { x.item(); }, "exactly one element"},
      {[&] { x.to_vector<float>(); }, "can't read a value"},
      {[&] { x.to(Device{}); }, "can't read a value"},
      {[&] {
         of({1, 2, 3});
       },
       "can't bring numbers from the host"},
      {[&] { Array(x).copy_from(ops::zeros({3})); }, "can't bring numbers from the host"},
      {[&] { backend(cuda).synchronize(); }, "can't wait for the GPU"},
      {[&] { ops::nonzero(ops::map(functors::Relu{}, x)); }, "can't read a value"},
      {[&] { optim::clip_grad_norm_({weight}, 1.0, 2.0, true); }, "can't read a value"},
      {[&] { scaler.step(optimizer); }, "can't read a value"},
      {[&] { optimizer.set_lr(0.2); }, "options can't change within a recorded step"},
      {[&] { record_graph(cuda, [] {}); }, "already recording a graph"},
  };
  for (const auto& [work, reason] : all) {
    try {
      record_graph(cuda, work);
      ADD_FAILURE() << "recorded, though it should say: " << reason;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what() << ", expected: " << reason;
    }
    EXPECT_FALSE(is_recording_graph());
    EXPECT_EQ(relu_times(x, 2).to_vector<float>(), (std::vector<float>{2, 0, 6})) << "after: " << reason;
  }
}

// A recorded step drops the same elements as an unrecorded one, even if a part of it is computed twice.
TEST(CudaGraph, EachReplayDropsAnew) {
  const Array x = ops::ones({2, 50}, DType::f32, cuda);
  const auto step = [&] {
    const Tensor in(x, true);
    { const Tensor unused = in * 2; }  // frees memory during the recording
    const Tensor first = dropout(in, 0.5);
    const Tensor again = nn::recompute([](const Tensor& t) { return dropout(t, 0.3) * t; }, first);
    sum(again + reshape(dropout2d(reshape(in, {2, 50, 1}), 0.2), {2, 50})).backward();
    return in.grad();
  };
  constexpr int steps = 4;
  std::vector<std::vector<float>> expected;
  manual_seed(3);
  for (int i = 0; i < steps; ++i) expected.push_back(step().to_vector<float>());
  EXPECT_NE(expected[0], expected[1]);
  manual_seed(3);
  Array found;
  const auto graph = record_graph(cuda, [&] { found = step(); });
  for (int i = 0; i < steps; ++i) {
    graph->replay();
    EXPECT_EQ(found.to_vector<float>(), expected[static_cast<std::size_t>(i)]) << "replay " << i;
  }
}

TEST(CudaGraph, RefusesTheCpu) {
  EXPECT_THROW(record_graph(Device{}, [] {}), Error);
}

#ifdef TANDEM_EMULATED_CUDA  // the emulator can fail on request
TEST(CudaGraph, ReportsADriverThatCannotRecord) {
  const Array x = of({1, 2, 3});
  emulation::driver().failing_call = "end capture";
  EXPECT_THROW(record_graph(cuda, [&] { relu_times(x, 2); }), Error);
  EXPECT_EQ(relu_times(x, 2).to_vector<float>(), (std::vector<float>{2, 4, 6}));
  const auto graph = record_graph(cuda, [&] { relu_times(x, 2); });
  graph->replay();
}
#endif

// A step that adds its first input times its second to a running sum, and returns twice the first.
struct Summing {
  Array sum = ops::zeros({2}, DType::f32, cuda);
  int calls = 0;
  std::vector<std::string> reports;
  GraphedStep step{cuda,
                   [this](const std::vector<Array>& inputs) {
                     ++calls;
                     ops::add_(sum, ops::sum_to(ops::zip(functors::Mul{}, inputs[0], inputs[1]), sum.shape()));
                     return ops::map(functors::Affine{2, 0}, inputs[0]);
                   },
                   [this](const std::string& why) { reports.push_back(why); }};

  Array run(const Array& x, double rate = 1) { return step({x, ops::scalar(rate, DType::f32, cuda)}); }
};

TEST(GraphedStep, GivesWhatTheFunctionGives) {
  Summing s;
  float expected = 0;
  for (int i = 1; i <= 10; ++i) {
    const auto x = static_cast<float>(i);
    EXPECT_EQ(s.run(of({x, 2 * x})).to_vector<float>(), (std::vector<float>{2 * x, 4 * x})) << "call " << i;
    expected += x;
    EXPECT_EQ(s.sum.to_vector<float>(), (std::vector<float>{expected, 2 * expected})) << "call " << i;
  }
  EXPECT_TRUE(s.step.is_recorded());
  EXPECT_EQ(s.calls, 4);  // three normal calls and one recorded
  EXPECT_TRUE(s.reports.empty());
}

// A batch is not copied if it was created in the memory from which the step reads it.
TEST(GraphedStep, ReadsABatchThatWasGatheredIntoItsInputs) {
  const Array rows = Array::from(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, {4, 2}).to(cuda);
  Array sum = ops::zeros({2, 2}, DType::f32, cuda);
  GraphedStep step(cuda, [&](const std::vector<Array>& inputs) {
    ops::add_(sum, inputs[0]);
    return inputs[0];
  });
  float first = 0;
  for (std::int64_t i = 0; i < 8; ++i) {
    const Array index = Array::from(std::vector<std::int64_t>{i % 4, 3 - i % 4}, {2}).to(cuda);
    first += static_cast<float>(2 * (i % 4) + 1);
#ifdef TANDEM_EMULATED_CUDA
    take_log();
#endif
    const ops::GatherInto places(step.recorded_inputs());
    step({ops::gather_rows(rows, index)});
#ifdef TANDEM_EMULATED_CUDA
    const auto log = take_log();
    if (i > 3) {
      EXPECT_EQ(count(log, "launch"), 2) << "the rows, and the graph";
    }
#endif
    const Array other = ops::gather_rows(rows, index);  // the memory is used only once
    EXPECT_NE(other.raw(), step.recorded_inputs().empty() ? nullptr : step.recorded_inputs()[0].raw());
    EXPECT_EQ(sum.select(0, 0).to_vector<float>()[0], first);
  }
  EXPECT_TRUE(step.is_recorded());
}

TEST(GraphedStep, ANumberThatChangesIsAnInput) {
  Summing s;
  float expected = 0;
  for (int i = 0; i < 10; ++i) {
    s.run(of({1, 1}), i);
    expected += static_cast<float>(i);
  }
  EXPECT_EQ(s.sum.to_vector<float>(), (std::vector<float>{expected, expected}));
  EXPECT_EQ(s.calls, 4);
}

TEST(GraphedStep, RecordsAnewWhenAnotherShapeStays) {
  Summing s;
  for (int i = 0; i < 8; ++i) s.run(of({1, 1}));
  for (int i = 0; i < 8; ++i) s.run(ops::ones({3, 2}, DType::f32, cuda));
  EXPECT_EQ(s.sum.to_vector<float>(), (std::vector<float>{8 + 24, 8 + 24}));
  EXPECT_EQ(s.calls, 8);
  EXPECT_TRUE(s.step.is_recorded());
}

TEST(GraphedStep, RunsAnOddBatchAsItIsAndGoesOn) {
  Summing s;
  for (int i = 0; i < 5; ++i) s.run(of({1, 1}));
  const int before = s.calls;
  const Array odd = Array::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2}).to(cuda);
  EXPECT_EQ(s.run(odd).shape(), (Shape{3, 2}));
  EXPECT_EQ(s.calls, before + 1);
  s.run(of({1, 1}));
  EXPECT_EQ(s.calls, before + 1);  // the recorded step still exists
  EXPECT_EQ(s.sum.to_vector<float>(), (std::vector<float>{5 + 9 + 1, 5 + 12 + 1}));
}

TEST(GraphedStep, ShapesThatAlwaysChangeAreNeverRecorded) {
  Summing s;
  for (int i = 1; i <= 10; ++i) s.run(ops::ones({i, 2}, DType::f32, cuda));
  EXPECT_EQ(s.calls, 10);
  EXPECT_FALSE(s.step.is_recorded());
}

TEST(GraphedStep, SaysOnceWhyItCannotRecord) {
  std::vector<std::string> reports;
  int calls = 0;
  GraphedStep step(
      cuda,
      [&](const std::vector<Array>& inputs) {
        ++calls;
        return ops::scalar(ops::reduce(Reduction::sum, inputs[0]).item(), DType::f32, cuda);
      },
      [&](const std::string& why) { reports.push_back(why); });
  for (int i = 0; i < 8; ++i) EXPECT_EQ(step({of({1, 2})}).item(), 3);
  EXPECT_EQ(calls, 9);  // one call was the attempt to record
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_NE(reports[0].find("can't read a value"), std::string::npos) << reports[0];
}

TEST(GraphedStep, OnTheCpuItIsTheFunction) {
  int calls = 0;
  GraphedStep step(
      Device{}, [&](const std::vector<Array>& inputs) { return ++calls, inputs[0]; },
      [](const std::string& why) { FAIL() << why; });
  for (int i = 0; i < 8; ++i) EXPECT_EQ(step({ops::scalar(i)}).item(), i);
  EXPECT_EQ(calls, 8);
}

}  // namespace
}  // namespace tandem
