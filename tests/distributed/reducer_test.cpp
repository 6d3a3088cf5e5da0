#include <tandem/autograd/ops.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/reducer.h>

#include <gtest/gtest.h>
#include <support/ranks.h>

#include <algorithm>
#include <cmath>

namespace tandem::distributed {
namespace {

using testing::Group;
using testing::run_ranks;

using Layout = std::vector<std::vector<std::size_t>>;

NamedTensor parameter(const std::string& name, std::int64_t elements, DType dtype = DType::f32) {
  return {name, Tensor(ops::ones({elements}, dtype), true)};
}

TEST(Buckets, follow_reverse_order_and_close_once_they_hold_their_size) {
  // 400-byte parameters: the first bucket closes at 500 bytes, the others at 1000.
  std::vector<NamedTensor> parameters;
  for (int i = 0; i < 8; ++i) parameters.push_back(parameter(std::to_string(i), 100));
  EXPECT_EQ(assign_buckets(parameters, {.first_bytes = 500, .bytes = 1000}),
            (Layout{{7, 6}, {5, 4, 3}, {2, 1, 0}}));
  EXPECT_EQ(assign_buckets(parameters, {}), (Layout{{7, 6, 5, 4, 3, 2, 1, 0}}));
  EXPECT_EQ(assign_buckets(parameters, {.first_bytes = 1, .bytes = 1}),
            (Layout{{7}, {6}, {5}, {4}, {3}, {2}, {1}, {0}}));
}

TEST(Buckets, hold_one_dtype_and_no_frozen_parameter) {
  std::vector<NamedTensor> parameters{parameter("a", 100), parameter("b", 100, DType::f64),
                                      parameter("c", 100), parameter("d", 100, DType::f64),
                                      parameter("e", 100)};
  parameters[2].tensor.set_requires_grad(false);
  EXPECT_EQ(assign_buckets(parameters, {}), (Layout{{4, 0}, {3, 1}}));
}

// Records what is started; the ranks are imagined.
class RecordingGroup : public ProcessGroup {
 public:
  explicit RecordingGroup(std::vector<std::string>& events) : events_(events) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  const char* backend() const override { return "recording"; }
  std::shared_ptr<ProcessGroup> subgroup(const std::vector<int>&) override { return nullptr; }
  Array allocate(const Shape& shape, DType dtype) override { return ops::zeros(shape, dtype); }
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

TEST(Reducer, starts_buckets_in_order_while_backward_runs) {
  std::vector<NamedTensor> parameters{parameter("a", 4), parameter("b", 4), parameter("c", 4)};
  std::vector<std::string> events;
  for (auto& [name, tensor] : parameters) {
    tensor.on_grad_ready([&events, name = name] { events.push_back("gradient " + name); });
  }
  Reducer reducer(parameters, std::make_shared<RecordingGroup>(events), {.first_bytes = 1, .bytes = 1});
  auto& [a, b, c] = reinterpret_cast<NamedTensor(&)[3]>(*parameters.data());

  sum(a.tensor * b.tensor * c.tensor).backward();
  EXPECT_EQ(events, (std::vector<std::string>{"gradient c", "start gradient bucket 0", "gradient a",
                                              "gradient b", "start gradient bucket 1",
                                              "start gradient bucket 2", "wait gradient bucket 0",
                                              "wait gradient bucket 1", "wait gradient bucket 2"}));
  // The other way round the last bucket is ready first, and waits for its turn.
  events.clear();
  sum(c.tensor * b.tensor * a.tensor).backward();
  EXPECT_EQ(events, (std::vector<std::string>{"gradient a", "gradient c", "start gradient bucket 0",
                                              "gradient b", "start gradient bucket 1",
                                              "start gradient bucket 2", "wait gradient bucket 0",
                                              "wait gradient bucket 1", "wait gradient bucket 2"}));
}

TEST(Reducer, averages_over_ranks_into_views_of_the_buckets) {
  for (const int size : {1, 2, 3}) {
    run_ranks(size, [](Group group) {
      std::vector<NamedTensor> parameters{parameter("a", 3), parameter("b", 5),
                                          parameter("c", 7, DType::f64)};
      Reducer reducer(parameters, group, {});
      const auto& [a, b, c] = reinterpret_cast<NamedTensor(&)[3]>(*parameters.data());
      const auto pass = [&] {
        const double x = group->rank() + 1;
        (sum(a.tensor * x) + sum(b.tensor * (10 * x)) + cast(sum(c.tensor * (100 * x)), DType::f32))
            .backward();
      };
      const double mean = (group->size() + 1) / 2.0;
      pass();
      EXPECT_NEAR(a.tensor.grad().data<float>()[2], mean, 1e-6);
      EXPECT_NEAR(b.tensor.grad().data<float>()[4], 10 * mean, 1e-5);
      EXPECT_NEAR(c.tensor.grad().data<double>()[6], 100 * mean, 1e-10);
      // a and b share a bucket: b first, a on the next cache line.
      EXPECT_EQ(a.tensor.grad().data<float>(), b.tensor.grad().data<float>() + 16);

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
  std::vector<NamedTensor> parameters{parameter("used", 4), parameter("layer.unused", 4),
                                      parameter("other", 4)};
  Reducer reducer(parameters, local_group(), {});
  try {
    sum(parameters[0].tensor).backward();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what())
                  .find("2 of 3 parameters got no gradient in this backward pass: other, "
                        "layer.unused."),
              std::string::npos)
        << error.what();
  }
  sum(parameters[0].tensor * parameters[1].tensor * parameters[2].tensor).backward();
}

TEST(Reducer, starts_afresh_after_a_backward_pass_that_failed) {
  std::vector<NamedTensor> parameters{parameter("a", 4), parameter("b", 4)};
  std::vector<std::string> events;
  Reducer reducer(parameters, std::make_shared<RecordingGroup>(events), {});
  auto& a = parameters[0].tensor;
  auto& b = parameters[1].tensor;
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
