#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/ddp/reducer.h>
#include <tandem/distributed/groups/local_group.h>
#include <tandem/distributed/store/store.h>

#include <gtest/gtest.h>
#include <support/ranks.h>
#include <support/temporary_folder.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace tandem::distributed {
namespace {

using testing::Group;
using testing::run_ranks;

NamedTensor parameter(const std::string& name, std::int64_t elements, DType dtype = DType::f32) {
  return {name, Tensor(ops::ones({elements}, dtype), true)};
}

// Records the operations that are started, and imitates a group of several ranks.
class RecordingGroup : public ProcessGroup {
 public:
  explicit RecordingGroup(std::vector<std::string>& events) : events_(events) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  const char* backend() const override { return "recording"; }
  std::shared_ptr<ProcessGroup> subgroup(const std::vector<int>&) override { return nullptr; }
  Array allocate(const Shape& shape, DType dtype, Device device) override { return ops::zeros(shape, dtype, device); }
  std::shared_ptr<Store> store() const override { return nullptr; }
  std::chrono::milliseconds timeout() const override { return std::chrono::seconds(1); }

  std::shared_ptr<Work> start(Operation operation) override {
    events_.push_back("start " + operation.name);
    return std::make_shared<Waited>(events_, operation.name);
  }

 private:
  struct Waited : Work {
    Waited(std::vector<std::string>& events, std::string name) : events(events), name(std::move(name)) {}
    bool is_done() const override { return true; }
    void wait() override { events.push_back("wait " + name); }
    void wait(std::chrono::milliseconds) override { wait(); }
    std::exception_ptr exception() const override { return nullptr; }
    std::vector<std::string>& events;
    std::string name;
  };
  std::vector<std::string>& events_;
};

// The calls of a pass over three buckets: `between`, and at the end a wait for each bucket.
std::vector<std::string> and_waits(std::vector<std::string> between) {
  for (const char* bucket : {"0", "1", "2"}) between.push_back(std::string("wait gradient bucket ") + bucket);
  return between;
}

TEST(Reducer, starts_buckets_in_order_while_backward_runs) {
  std::vector<NamedTensor> parameters{parameter("a", 4), parameter("b", 4), parameter("c", 4)};
  std::vector<std::string> events;
  for (auto& [name, tensor] : parameters) {
    tensor.on_grad_ready([&events, name = name] { events.push_back("gradient " + name); });
  }
  Reducer reducer(parameters, std::make_shared<RecordingGroup>(events), {.first_bytes = 1, .bytes = 1});
  const auto& [a, b, c] = reinterpret_cast<NamedTensor(&)[3]>(*parameters.data());

  // The gradients become ready in the order c, a, b. The buckets are at first in the order c, b, a.
  auto expected = and_waits({"gradient c", "start gradient bucket 0", "gradient a", "gradient b",
                             "start gradient bucket 1", "start gradient bucket 2"});
  expected.push_back("start order of the gradients");
  expected.push_back("wait order of the gradients");
  sum(a.tensor * b.tensor * c.tensor).backward();
  EXPECT_EQ(events, expected);

  // From then on the buckets are in the order c, a, b.
  events.clear();
  sum(a.tensor * b.tensor * c.tensor).backward();
  EXPECT_EQ(events, and_waits({"gradient c", "start gradient bucket 0", "gradient a", "start gradient bucket 1",
                               "gradient b", "start gradient bucket 2"}));

  // If the graph changes, a bucket that is ready early waits for its turn.
  events.clear();
  sum(c.tensor * b.tensor * a.tensor).backward();
  EXPECT_EQ(events, and_waits({"gradient a", "gradient c", "start gradient bucket 0", "start gradient bucket 1",
                               "gradient b", "start gradient bucket 2"}));
}

TEST(Reducer, knows_what_is_unused_before_the_first_gradient) {
  std::vector<NamedTensor> parameters{parameter("a", 4), parameter("b", 4), parameter("unused", 4)};
  std::vector<std::string> events;
  for (auto& [name, tensor] : parameters) {
    tensor.on_grad_ready([&events, name = name] { events.push_back("gradient " + name); });
  }
  Reducer reducer(parameters, std::make_shared<RecordingGroup>(events), {.first_bytes = 1, .bytes = 1}, Unused::zero);
  sum(parameters[1].tensor * parameters[0].tensor).backward();
  // The bucket of "unused" is the first, and does not delay the others until the end.
  events.resize(5);
  EXPECT_EQ(events, (std::vector<std::string>{"gradient b", "start gradient bucket 0", "start gradient bucket 1",
                                              "gradient a", "start gradient bucket 2"}));
}

TEST(Reducer, averages_over_ranks_into_views_of_the_buckets) {
  for (const int size : {1, 2, 3}) {
    run_ranks(size, [](Group group) {
      std::vector<NamedTensor> parameters{parameter("a", 3), parameter("b", 5), parameter("c", 7, DType::f64)};
      Reducer reducer(parameters, group, {});
      const auto& [a, b, c] = reinterpret_cast<NamedTensor(&)[3]>(*parameters.data());
      const auto pass = [&] {
        const double x = group->rank() + 1;
        (sum(a.tensor * x) + sum(b.tensor * (10 * x)) + cast(sum(c.tensor * (100 * x)), DType::f32)).backward();
      };
      const double mean = (group->size() + 1) / 2.0;
      pass();
      EXPECT_NEAR(a.tensor.grad().data<float>()[2], mean, 1e-6);
      EXPECT_NEAR(b.tensor.grad().data<float>()[4], 10 * mean, 1e-5);
      EXPECT_NEAR(c.tensor.grad().data<double>()[6], 100 * mean, 1e-10);
      // a and b share a bucket, but not a cache line.
      EXPECT_EQ(std::abs(a.tensor.grad().data<float>() - b.tensor.grad().data<float>()), 16);

      // A second pass adds to the mean of the first.
      pass();
      EXPECT_NEAR(a.tensor.grad().data<float>()[0], 2 * mean, 1e-5);
      for (auto& [name, tensor] : parameters) tensor.zero_grad();
      pass();
      EXPECT_NEAR(a.tensor.grad().data<float>()[0], mean, 1e-6);
    });
  }
}

TEST(Reducer, names_unused_parameters_at_the_end_of_the_same_backward) {
  std::vector<NamedTensor> parameters{parameter("used", 4), parameter("layer.unused", 4), parameter("other", 4)};
  Reducer reducer(parameters, local_group(), {});
  try {
    sum(parameters[0].tensor).backward();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what())
                  .find("2 of 3 parameters got no gradient in this backward pass: "
                        "layer.unused, other."),
              std::string::npos)
        << error.what();
  }
  sum(parameters[0].tensor * parameters[1].tensor * parameters[2].tensor).backward();
}

TEST(Reducer, all_ranks_name_what_some_did_not_use_and_go_on) {
  for (const bool with_hook : {false, true}) {
    run_ranks(3, [&](Group group) {
      std::vector<NamedTensor> parameters{parameter("a", 4), parameter("b", 4), parameter("c", 4)};
      Reducer reducer(parameters, group, {.first_bytes = 1, .bytes = 1});
      if (with_hook) reducer.set_communication_hook(all_reduce_hook());
      const auto& [a, b, c] = reinterpret_cast<NamedTensor(&)[3]>(*parameters.data());
      for (int pass = 0; pass < 3; ++pass) {
        try {
          Tensor loss = a.tensor;
          if (group->rank() != 1) loss = loss * b.tensor;
          if (group->rank() == 0) loss = loss * c.tensor;
          sum(loss).backward();
          ADD_FAILURE() << "no error";
        } catch (const Error& error) {
          testing::expect_parts(error.what(), {"rank 1: 2 of 3 parameters got no gradient in this backward pass: b, c",
                                               "rank 2: 1 of 3 parameters got no gradient in this backward pass: c",
                                               "Unused::skip (--unused skip)", "Unused::zero (--unused zero)"});
          EXPECT_EQ(std::string(error.what()).find("rank 0"), std::string::npos) << error.what();
        }
        for (auto& [name, tensor] : parameters) tensor.zero_grad();
        sum(a.tensor * b.tensor * c.tensor * (group->rank() + 1)).backward();
        for (auto& [name, tensor] : parameters) {
          EXPECT_NEAR(tensor.grad().data<float>()[3], 2, 1e-6) << name;
          tensor.zero_grad();
        }
      }
    });
  }
}

TEST(Reducer, takes_zero_from_a_rank_that_does_not_use_a_parameter) {
  run_ranks(2, [](Group group) {
    std::vector<NamedTensor> parameters{parameter("a", 4), parameter("b", 4), parameter("c", 4)};
    Reducer reducer(parameters, group, {.first_bytes = 1, .bytes = 1}, Unused::zero);
    const auto& [a, b, c] = reinterpret_cast<NamedTensor(&)[3]>(*parameters.data());
    for (int pass = 0; pass < 3; ++pass) {
      for (auto& [name, tensor] : parameters) tensor.zero_grad();
      // The rank that uses b changes from pass to pass.
      sum(group->rank() == pass % 2 ? a.tensor * b.tensor * 4 : a.tensor).backward();
      EXPECT_EQ(a.tensor.grad().data<float>()[0], 2.5);
      EXPECT_EQ(b.tensor.grad().data<float>()[0], 2);
      ASSERT_TRUE(c.tensor.grad().defined());
      EXPECT_EQ(c.tensor.grad().data<float>()[0], 0);
    }
  });
}

TEST(Reducer, skips_what_no_rank_uses_and_leaves_its_gradient_to_the_bit) {
  run_ranks(3, [](Group group) {
    std::vector<NamedTensor> parameters{parameter("a", 4), parameter("b", 4), parameter("c", 4)};
    Reducer reducer(parameters, group, {}, Unused::skip);
    const auto& [a, b, c] = reinterpret_cast<NamedTensor(&)[3]>(*parameters.data());
    for (int pass = 0; pass < 2; ++pass) {
      for (auto& [name, tensor] : parameters) tensor.zero_grad();
      sum(group->rank() == 0 ? a.tensor * b.tensor * 3 : a.tensor).backward();
      EXPECT_NEAR(a.tensor.grad().data<float>()[0], 5.0 / 3, 1e-6);
      EXPECT_NEAR(b.tensor.grad().data<float>()[0], 1,
                  1e-6);  // the mean over all ranks, including those without it
      EXPECT_FALSE(c.tensor.grad().defined());
    }
    // An existing gradient does not change. 0.1 would change if each rank multiplied it by 1/3 and the results were
    // added.
    parameters[2].tensor.set_grad(ops::full({4}, 0.1));
    sum(a.tensor).backward();
    EXPECT_EQ(c.tensor.grad().data<float>()[0], 0.1f);
    // A parameter counts as used if any rank has used it since the last average, even under no_sync.
    for (auto& [name, tensor] : parameters) tensor.zero_grad();
    if (const auto local = reducer.no_sync(); group->rank() == 2) sum(c.tensor * 6).backward();
    sum(a.tensor).backward();
    ASSERT_TRUE(c.tensor.grad().defined());
    EXPECT_NEAR(c.tensor.grad().data<float>()[0], 2, 1e-6);
    EXPECT_FALSE(b.tensor.grad().defined());
  });
}

TEST(Reducer, averages_the_sum_of_what_was_accumulated) {
  run_ranks(3, [](Group group) {
    std::vector<NamedTensor> parameters{parameter("a", 4), parameter("b", 5)};
    Reducer reducer(parameters, group, {.first_bytes = 1, .bytes = 1});
    const auto& a = parameters[0].tensor;
    const double x = group->rank() + 1;
    for (int step = 0; step < 3; ++step) {
      for (auto& [name, tensor] : parameters) tensor.zero_grad();
      for (int part = 0; part < 3; ++part) {
        const auto local = reducer.no_sync();
        sum(a * parameters[1].tensor.value().slice(0, 0, 4) * x).backward();
        EXPECT_EQ(a.grad().data<float>()[0], x * (part + 1));  // only this rank's gradient
      }
      (sum(a * x) + sum(parameters[1].tensor * x)).backward();
      EXPECT_NEAR(a.grad().data<float>()[0], 8, 1e-5);  // 4 times the mean of 1, 2, 3
      EXPECT_NEAR(parameters[1].tensor.grad().data<float>()[0], 2, 1e-5);
    }
  });
}

TEST(Reducer, moves_gradients_with_their_values_when_it_rebuilds_the_buckets) {
  run_ranks(2, [](Group group) {
    std::vector<NamedTensor> parameters{parameter("a", 4), parameter("b", 4), parameter("c", 4)};
    Reducer reducer(parameters, group, {.first_bytes = 1, .bytes = 1});
    struct Names : ReducerObserver {
      void buckets_made() override { ++made; }
      void reduction_begun(const GradBucket& bucket) override { names.push_back(bucket.parameters.at(0).name); }
      int made = 0;
      std::vector<std::string> names;
    };
    const auto seen = std::make_shared<Names>();
    reducer.observe(seen);
    const auto& [a, b, c] = reinterpret_cast<NamedTensor(&)[3]>(*parameters.data());
    // The gradients become ready in a different order on each rank. All ranks use rank 0's order.
    const auto pass = [&, &a = a, &b = b, &c = c] {
      const Tensor product = group->rank() == 0 ? a.tensor * b.tensor * c.tensor : c.tensor * b.tensor * a.tensor;
      sum(product * (group->rank() + 1)).backward();
    };
    pass();
    EXPECT_EQ(seen->names, (std::vector<std::string>{"c", "b", "a"}));
    EXPECT_EQ(seen->made, 1);
    for (const auto& [name, tensor] : parameters) EXPECT_EQ(tensor.grad().data<float>()[2], 1.5) << name;
    pass();
    for (const auto& [name, tensor] : parameters) EXPECT_EQ(tensor.grad().data<float>()[2], 3) << name;
    EXPECT_EQ(seen->names, (std::vector<std::string>{"c", "b", "a", "c", "a", "b"}));
  });
}

TEST(Reducer, refuses_a_parameter_that_is_thawed_too_late) {
  std::vector<NamedTensor> parameters{parameter("a", 4), parameter("frozen", 4)};
  parameters[1].tensor.set_requires_grad(false);
  Reducer reducer(parameters, local_group(), {});
  sum(parameters[0].tensor * parameters[1].tensor).backward();
  EXPECT_FALSE(parameters[1].tensor.grad().defined());
  parameters[1].tensor.set_requires_grad(true);
  try {
    sum(parameters[0].tensor * parameters[1].tensor).backward();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    testing::expect_parts(error.what(), {"frozen requires a gradient now", "after set_requires_grad(true)"});
  }
}

// Measures the cost of the reducer itself, with a thousand parameters and without communication.
TEST(Reducer, costs_less_than_20_microseconds_a_parameter) {
  constexpr int count = 1000;
  class SilentGroup : public RecordingGroup {
   public:
    using RecordingGroup::RecordingGroup;

   protected:
    std::shared_ptr<Work> start(Operation) override { return done_; }

   private:
    struct Done : Work {
      bool is_done() const override { return true; }
      void wait() override {}
      void wait(std::chrono::milliseconds) override {}
      std::exception_ptr exception() const override { return nullptr; }
    };
    std::shared_ptr<Work> done_ = std::make_shared<Done>();
  };
  using Clock = std::chrono::steady_clock;
  const auto best_of_passes = [](std::vector<NamedTensor>& parameters) {
    double best = 1e9;
    for (int pass = 0; pass < 20; ++pass) {
      Tensor loss = parameters[0].tensor;
      for (int i = 1; i < count; ++i) loss = loss + parameters[i].tensor;
      const Tensor total = sum(loss);
      for (auto& [name, tensor] : parameters) tensor.zero_grad();
      const auto start = Clock::now();
      total.backward();
      best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
    }
    return best;
  };
  std::vector<NamedTensor> parameters;
  for (int i = 0; i < count; ++i) parameters.push_back(parameter("p" + std::to_string(i), 4));
  const double alone = best_of_passes(parameters);
  std::vector<std::string> events;
  for (const Unused unused : {Unused::error, Unused::zero}) {
    // A bucket holds 10 parameters.
    const Reducer reducer(parameters, std::make_shared<SilentGroup>(events), {.first_bytes = 160, .bytes = 160},
                          unused);
    const double microseconds = 1e6 * (best_of_passes(parameters) - alone) / count;
    RecordProperty(unused == Unused::error ? "microseconds" : "microseconds_where_some_may_be_unused",
                   std::to_string(microseconds));
    EXPECT_LT(microseconds, 20);
  }
}

TEST(Reducer, starts_afresh_after_a_backward_pass_that_failed) {
  std::vector<NamedTensor> parameters{parameter("a", 4), parameter("b", 4)};
  std::vector<std::string> events;
  Reducer reducer(parameters, std::make_shared<RecordingGroup>(events), {});
  auto& a = parameters[0].tensor;
  auto& b = parameters[1].tensor;
  sum(b * a).backward();
  auto failing = a.on_grad_ready([] { throw Error("a hook failed"); });
  EXPECT_THROW(sum(b * a).backward(), Error);
  failing.remove();
  events.clear();
  sum(b * a).backward();
  EXPECT_EQ(events, (std::vector<std::string>{"start gradient bucket 0", "wait gradient bucket 0"}));
}

TEST(Reducer, leaves_the_parameters_alone_once_it_is_gone) {
  std::vector<NamedTensor> parameters{parameter("a", 4)};
  std::vector<std::string> events;
  { Reducer reducer(parameters, std::make_shared<RecordingGroup>(events), {}); }
  sum(parameters[0].tensor).backward();
  EXPECT_TRUE(events.empty());
  EXPECT_EQ(parameters[0].tensor.grad().data<float>()[3], 1);
}

}  // namespace
}  // namespace tandem::distributed
