#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/ddp/compress_hook.h>
#include <tandem/distributed/ddp/powersgd.h>
#include <tandem/distributed/ddp/reducer.h>

#include <gtest/gtest.h>
#include <support/arrays.h>
#include <support/ranks.h>
#include <support/small_training.h>
#include <support/temporary_folder.h>

#include <cmath>

namespace tandem::distributed {
namespace {

using testing::Group;
using testing::message_of;
using testing::run_ranks;
using testing::run_ranks_catching;

// Returns different numbers for each seed.
Array noise(const Shape& shape, std::int64_t seed) { return testing::noise_array(shape, 10000 * seed); }

std::vector<NamedTensor> parameters_of(const std::vector<Shape>& shapes) {
  std::vector<NamedTensor> parameters;
  for (const auto& shape : shapes) {
    parameters.push_back({"p" + std::to_string(parameters.size()), Tensor(ops::zeros(shape), true)});
  }
  return parameters;
}

// Runs a backward pass that gives parameter i the gradient gradients[i].
void pass(const std::vector<NamedTensor>& parameters, const std::vector<Array>& gradients) {
  Tensor loss = sum(parameters[0].tensor * gradients[0]);
  for (std::size_t i = 1; i < parameters.size(); ++i) loss = loss + sum(parameters[i].tensor * gradients[i]);
  for (const auto& [name, tensor] : parameters) Tensor(tensor).zero_grad();
  loss.backward();
}

// The mean of the ranks' gradients, which have the seeds from `seed` on.
Array mean_noise(const Shape& shape, int ranks, std::int64_t seed) {
  Array sum = ops::zeros(shape);
  for (int r = 0; r < ranks; ++r) ops::add_(sum, noise(shape, seed + r));
  ops::scale_(sum, 1.0 / ranks);
  return sum;
}

std::string bits_of(const Array& array) { return {static_cast<const char*>(array.contiguous().raw()), array.bytes()}; }

double norm(const Array& array) {
  double sum = 0;
  for (const double v : array.to_vector<double>()) sum += v * v;
  return std::sqrt(sum);
}

TEST(CompressHook, averages_in_16_bits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    run_ranks(3, [&](Group group) {
      const auto parameters = parameters_of({{7, 5}, {11}});
      Reducer reducer(parameters, group, {.first_bytes = 1, .bytes = 1});
      reducer.set_communication_hook(compress_hook(dtype));
      const auto seed = static_cast<std::uint64_t>(group->rank());
      for (int step = 0; step < 2; ++step) {
        pass(parameters, {noise({7, 5}, 10 + seed), noise({11}, 20 + seed)});
        const double tolerance = 2 * testing::machine_epsilon(dtype);
        const Array found = parameters[0].tensor.grad();
        testing::expect_close(mean_noise({7, 5}, 3, 10), found, tolerance, "p0");
        testing::expect_close(mean_noise({11}, 3, 20), parameters[1].tensor.grad(), tolerance, "p1");
        testing::expect_same(found.to(dtype).to(DType::f32), found, "what 16 bits can hold");
        for (const auto& other : group->all_gather_strings(bits_of(found), "bits")) {
          EXPECT_TRUE(other == bits_of(found));
        }
      }
    });
  }
  EXPECT_THROW(compress_hook(DType::f32), Error);
}

TEST(Hook, of_ones_own_sees_the_buckets_in_order_and_decides) {
  run_ranks(2, [](Group group) {
    const auto parameters = parameters_of({{4}, {5}, {6}});
    Reducer reducer(parameters, group, {.first_bytes = 1, .bytes = 1});
    std::vector<std::string> seen;
    reducer.set_communication_hook([&seen](const GradBucket& bucket, ProcessGroup& g) {
      seen.push_back(std::to_string(bucket.index) + " " + bucket.parameters.at(0).name +
                     (bucket.is_last ? " last" : ""));
      EXPECT_EQ(bucket.gradients.at(0).shape(), bucket.parameters[0].tensor.shape());
      auto work = g.all_reduce(bucket.buffer, ReduceOp::max);
      return finish_with(work, [gradient = bucket.gradients[0]]() mutable { ops::scale_(gradient, 10); });
    });
    const double x = group->rank() + 1;
    const std::vector<Array> gradients{ops::full({4}, x), ops::full({5}, x), ops::full({6}, x)};
    pass(parameters, gradients);
    seen.clear();
    pass(parameters, gradients);
    ASSERT_EQ(seen.size(), 3u);
    EXPECT_EQ(seen[0][0], '0');
    EXPECT_EQ(seen[2].substr(seen[2].size() - 4), "last");
    for (const auto& [name, tensor] : parameters) EXPECT_EQ(tensor.grad().data<float>()[3], 20) << name;
    // A hook that returns no Work has sent nothing.
    reducer.set_communication_hook([](const GradBucket&, ProcessGroup&) { return nullptr; });
    pass(parameters, gradients);
    EXPECT_EQ(parameters[2].tensor.grad().data<float>()[0], x);
  });
}

TEST(Hook, that_throws_is_reported_with_rank_and_bucket) {
  for (const bool late : {false, true}) {
    const auto results = run_ranks_catching(2, [&](Group group) {
      const auto parameters = parameters_of({{4}, {5}});
      Reducer reducer(parameters, group, {.first_bytes = 1, .bytes = 1});
      reducer.set_communication_hook([&](const GradBucket& bucket, ProcessGroup& g) {
        const bool fails = g.rank() == 1 && bucket.index == 1;
        if (fails && !late) throw std::runtime_error("out of luck");
        return finish_with(all_reduce_hook()(bucket, g), [fails] {
          if (fails) throw std::runtime_error("out of luck");
        });
      });
      pass(parameters, {ops::ones({4}), ops::ones({5})});
      pass(parameters, {ops::ones({4}), ops::ones({5})});
    });
    EXPECT_NE(message_of(results[1]).find("rank 1: the communication hook failed on gradient bucket 1 (p"),
              std::string::npos)
        << message_of(results[1]);
    EXPECT_NE(message_of(results[1]).find("): out of luck"), std::string::npos);
    EXPECT_NE(message_of(results[0]), "");  // does not wait forever
  }
}

// If `turned`, the parameter is channels last in memory, as weights of convolutions are on a GPU.
void check_exact_powersgd(bool turned) {
  run_ranks(3, [&](Group group) {
    const auto parameters = parameters_of({{20, 3, 3, 3}, {20}});
    if (turned) Tensor(parameters[0].tensor).set_value(parameters[0].tensor.value().channels_last());
    Reducer reducer(parameters, group, {});
    reducer.set_communication_hook(powersgd_hook({.rank = 2, .start_step = 0}));
    // The gradients have two fixed directions. The processes mix them differently, so their mean is a matrix of rank 2.
    const Array left = noise({20, 2}, 1), right = noise({2, 27}, 2);
    const auto gradient = [&](int rank, int step) {
      Array weights = ops::zeros({2, 1});
      weights.data<float>()[0] = static_cast<float>(rank + 1);
      weights.data<float>()[1] = static_cast<float>(step * rank - 1);
      return ops::matmul(left, ops::zip(functors::Mul{}, right, weights)).reshape({20, 3, 3, 3});
    };
    for (int step = 0; step < 3; ++step) {
      pass(parameters, {gradient(group->rank(), step), ops::full({20}, group->rank())});
      Array mean = ops::zeros({20, 3, 3, 3});
      for (int r = 0; r < 3; ++r) ops::add_(mean, gradient(r, step));
      ops::scale_(mean, 1.0 / 3);
      const Array found = parameters[0].tensor.grad();
      EXPECT_EQ(found.is_channels_last(), turned);
      testing::expect_close(mean, found, 1e-5, "p0 at step " + std::to_string(step));
      EXPECT_EQ(parameters[1].tensor.grad().data<float>()[0], 1);  // a bias is not compressed
      for (const auto& other : group->all_gather_strings(bits_of(found), "bits")) EXPECT_TRUE(other == bits_of(found));
    }
  });
}

TEST(PowerSgd, is_exact_where_the_gradient_has_its_rank) {
  check_exact_powersgd(false);
  check_exact_powersgd(true);
}

// Error feedback delays parts of the gradients, but loses nothing. The sum of the applied gradients is close to the sum
// of the true gradients. Without feedback, directions outside of P are never applied.
TEST(PowerSgd, makes_up_for_its_errors) {
  const auto relative_error = [](bool feedback) {
    double result = 0;
    run_ranks(2, [&](Group group) {
      const auto parameters = parameters_of({{16, 24}, {24, 16}});
      // There are two buckets, and their two phases interleave.
      Reducer reducer(parameters, group, {.first_bytes = 1, .bytes = 1});
      reducer.set_communication_hook(powersgd_hook({.rank = 2, .start_step = 1, .error_feedback = feedback}));
      const Array mine = noise({16, 24}, group->rank());
      const Array mean = mean_noise({16, 24}, 2, 0);
      Array applied = ops::zeros({16, 24});
      const int steps = 30;
      for (int step = 0; step < steps; ++step) {
        pass(parameters, {mine, mine.transpose(0, 1).contiguous()});
        const Array found = parameters[0].tensor.grad();
        // The first step is a plain all-reduce.
        if (step == 0) testing::expect_close(mean, found, 1e-6, "first step");
        ops::add_(applied, found);
      }
      ops::scale_(applied, 1.0 / steps);
      if (group->rank() == 0) result = norm(ops::zip(functors::Sub{}, applied, mean)) / norm(mean);
    });
    return result;
  };
  const double with = relative_error(true), without = relative_error(false);
  EXPECT_LT(with, 0.3);
  EXPECT_GT(without, 0.5);
}

// One hook takes half of the steps. A second hook loads the state of the first and takes the rest. The bits are the
// same as with one hook. The hooks have different seeds. After the change of hooks, a gradient of zeros makes the hook
// draw random numbers, so the test fails if the generator's state was not loaded.
TEST(PowerSgd, gives_and_takes_what_it_keeps) {
  run_ranks(2, [](Group group) {
    const auto gradients = [&](int step) {
      Array first = noise({16, 24}, 10 * step + group->rank());
      if (step == 5) first.fill(0);
      return std::vector<Array>{first, noise({24, 16}, 100 * step + group->rank()), noise({24}, step)};
    };
    std::string expected, found;
    const auto train = [&](bool stops, std::string& bits) {
      const auto parameters = parameters_of({{16, 24}, {24, 16}, {24}});
      Reducer reducer(parameters, group, {.first_bytes = 1, .bytes = 1});
      reducer.set_communication_hook(powersgd_hook({.rank = 2, .start_step = 2, .warm_start = false}));
      for (int step = 1; step <= 8; ++step) {
        if (stops && step == 5) {
          auto state = reducer.communication_hook().stateful()->state_dict();
          CommunicationHook next = powersgd_hook({.rank = 2, .start_step = 2, .warm_start = false, .seed = 77});
          next.stateful()->load_state_dict(state);
          // The hook has copied the state.
          for (const auto& [name, array] : state) {
            if (array.ndim() == 2) Array(array).fill(0);
          }
          reducer.set_communication_hook(next);
        }
        pass(parameters, gradients(step));
        for (const auto& [name, tensor] : parameters) bits += bits_of(tensor.grad());
      }
    };
    train(false, expected);
    train(true, found);
    EXPECT_TRUE(found == expected);
  });
}

TEST(PowerSgd, refuses_a_state_of_something_else) {
  run_ranks(1, [](Group group) {
    const auto parameters = parameters_of({{16, 24}});
    Reducer reducer(parameters, group, {});
    reducer.set_communication_hook(powersgd_hook({.rank = 1, .start_step = 0}));
    pass(parameters, {noise({16, 24}, 1)});
    auto* const hook = reducer.communication_hook().stateful();
    ASSERT_TRUE(hook);
    const auto state = hook->state_dict();
    std::vector<NamedArray> more = state, less = state, other = state;
    more.push_back({"p0/momentum", ops::zeros({16, 24})});
    EXPECT_ERROR(hook->load_state_dict(more), "unknown entry p0/momentum");
    std::erase_if(less, [](const NamedArray& entry) { return entry.name == "step"; });
    EXPECT_ERROR(hook->load_state_dict(less), "has no step");
    for (const auto& step : {ops::scalar(1e30, DType::f64), ops::scalar(2, DType::f32)}) {
      std::vector<NamedArray> odd = state;
      for (auto& [name, array] : odd) {
        if (name == "step") array = step;
      }
      EXPECT_ERROR(hook->load_state_dict(odd), "the saved step", "not a whole number");
    }
    for (auto& [name, array] : other) {
      if (name == "p0/error") array = ops::zeros({24, 16});
    }
    hook->load_state_dict(other);
    EXPECT_ERROR(pass(parameters, {noise({16, 24}, 2)}), "gradient bucket 0", "(24, 16), expected (16, 24)",
                 "the same model");
    EXPECT_FALSE(compress_hook(DType::bf16).stateful());
  });
}

TEST(PowerSgd, recovers_from_a_gradient_of_zeros_and_refuses_nonsense) {
  run_ranks(2, [](Group group) {
    const auto parameters = parameters_of({{16, 24}});
    Reducer reducer(parameters, group, {});
    reducer.set_communication_hook(powersgd_hook({.rank = 1, .start_step = 0}));
    pass(parameters, {ops::zeros({16, 24})});
    EXPECT_EQ(norm(parameters[0].tensor.grad()), 0);
    const Array gradient = ops::ones({16, 24});  // of rank 1
    pass(parameters, {gradient});
    testing::expect_close(gradient, parameters[0].tensor.grad(), 1e-5, "p0");
  });
  EXPECT_THROW(powersgd_hook({.rank = 0}), Error);
}

}  // namespace
}  // namespace tandem::distributed
