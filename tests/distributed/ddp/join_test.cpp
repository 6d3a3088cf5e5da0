#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/ddp/join.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/sequential.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>
#include <support/arrays.h>
#include <support/ranks.h>

namespace tandem::distributed {
namespace {

using testing::Group;
using testing::message_of;
using testing::run_ranks;
using testing::run_ranks_catching;

// A module whose gradient is rank + 1 in each step.
struct One : nn::Module {
  Tensor weight = add_parameter("weight", ops::zeros({3}));
  One() { weight.set_requires_grad(true); }
  Tensor forward(const Tensor& x) override { return weight * x; }
};

void take_steps(DistributedDataParallel& ddp, optim::SGD& optimizer, int rank, int steps) {
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    sum(ddp(ops::full({3}, rank + 1))).backward();
    optimizer.step();
  }
}

TEST(Join, divides_by_all_ranks_or_by_those_that_have_data) {
  for (const bool by_initial : {true, false}) {
    run_ranks(3, [&](Group group) {
      const int rank = group->rank();
      One model;
      DistributedDataParallel ddp(model, group);
      optim::SGD optimizer(model.parameters(), {.lr = 1});
      // Rank 1 has no data, rank 0 has one step, and rank 2 has two.
      const int steps[] = {1, 0, 2};
      join(ddp, [&] { take_steps(ddp, optimizer, rank, steps[rank]); }, {.divide_by_initial_world_size = by_initial});
      const double expected = by_initial ? 4.0 / 3 + 3.0 / 3 : 4.0 / 2 + 3.0;
      EXPECT_NEAR(model.weight.value().data<float>()[0], -expected, 1e-6);
      // Afterwards, training works as before.
      take_steps(ddp, optimizer, rank, 1);
      EXPECT_NEAR(model.weight.value().data<float>()[0], -expected - 2, 1e-6);
    });
  }
}

// Without the copied state, rank 0 would continue with an older momentum, and rank 1 without momentum.
TEST(Join, gives_all_ranks_the_optimizers_state) {
  run_ranks(3, [](Group group) {
    const int rank = group->rank();
    One model;
    DistributedDataParallel ddp(model, group);
    optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
    const int steps[] = {2, 0, 4};
    join(ddp, [&] { take_steps(ddp, optimizer, rank, steps[rank]); }, {.optimizers = {&optimizer}});
    take_steps(ddp, optimizer, rank, 2);
    EXPECT_NO_THROW(ddp.check_same_weights());
    const auto state = optimizer.state_dict();
    ASSERT_EQ(state.size(), 1u);
    const auto all = group->all_gather_strings(state[0].array.to_string());
    EXPECT_EQ(all[1], all[0]);
    EXPECT_EQ(all[2], all[0]);
  });
}

TEST(Join, is_nothing_special_where_all_have_the_same_or_there_is_one) {
  for (const int size : {1, 2}) {
    run_ranks(size, [](Group group) {
      One model;
      DistributedDataParallel ddp(model, group);
      optim::SGD optimizer(model.parameters(), {.lr = 1});
      double expected = 0;
      for (const bool throws : {false, true}) {
        join(ddp, [&] { take_steps(ddp, optimizer, group->rank(), 3); }, {.throw_on_early_termination = throws});
        expected -= 3 * (group->size() + 1) / 2.0;
        EXPECT_NEAR(model.weight.value().data<float>()[0], expected, 1e-6);
      }
    });
  }
}

TEST(Join, throws_on_all_ranks_when_asked_to) {
  const auto results = run_ranks_catching(3, [](Group group) {
    One model;
    DistributedDataParallel ddp(model, group);
    optim::SGD optimizer(model.parameters(), {.lr = 1});
    join(ddp, [&] { take_steps(ddp, optimizer, group->rank(), group->rank() == 1 ? 2 : 4); },
         {.throw_on_early_termination = true});
  });
  for (const auto& result : results) {
    EXPECT_NE(message_of(result).find("rank 1 has run out of data while 2 of 3 ranks have more"), std::string::npos)
        << message_of(result);
  }
}

TEST(Join, shares_buffers_and_ends_with_the_model_of_the_last_rank) {
  run_ranks(3, [](Group group) {
    manual_seed(3);
    nn::Sequential model{nn::Conv2d(1, 2, 3), nn::BatchNorm2d(2)};
    DistributedDataParallel ddp(model, group);
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    for (int again = 0; again < 2; ++again) {
      join(ddp, [&] {
        for (int step = 0; step < 2 + 2 * (group->rank() == 1); ++step) {
          optimizer.zero_grad();
          Array x = testing::counting({2, 1, 5, 5});
          ops::scale_(x, group->rank() + 1);
          sum(ddp(x) * ddp(x)).backward();  // two forward passes, each of which copies the buffers
          optimizer.step();
        }
      });
      std::string bits;
      for (const auto& [name, array] : model.state_dict()) {
        bits.append(static_cast<const char*>(array.contiguous().raw()), array.bytes());
      }
      for (const auto& other : group->all_gather_strings(bits, "bits")) EXPECT_TRUE(other == bits);
    }
  });
}

TEST(Join, a_rank_that_does_something_else_is_named) {
  const auto results = run_ranks_catching(2, [](Group group) {
    JoinRounds rounds(group, {});
    rounds.agree_on(group->rank() == 0 ? JoinRounds::Step::buffers : JoinRounds::Step::backward);
  });
  for (const auto& result : results) {
    EXPECT_NE(message_of(result).find("rank 0 is at sharing the buffers, rank 1 at backward"), std::string::npos)
        << message_of(result);
  }
}

}  // namespace
}  // namespace tandem::distributed
