#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/data/array_dataset.h>
#include <tandem/data/loader.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/groups/local_group.h>
#include <tandem/distributed/job/shared_data.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/loss.h>
#include <tandem/nn/sequential.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>
#include <support/ranks.h>
#include <support/small_training.h>
#include <support/temporary_folder.h>

#include <cmath>
#include <cstring>
#include <mutex>

namespace tandem::distributed {
namespace {

using testing::Group;
using testing::message_of;
using testing::network_with_batch_norm;
using testing::plain_network;
using testing::run_ranks;
using testing::run_ranks_catching;
using testing::Samples;

std::string bits_of(const std::vector<NamedArray>& state) {
  std::string bits;
  for (const auto& [name, array] : state) {
    const Array flat = array.contiguous();
    bits.append(static_cast<const char*>(flat.raw()), flat.bytes());
  }
  return bits;
}

std::string bits_of_parameters(const nn::Module& model) {
  std::vector<NamedArray> parameters;
  for (const auto& [name, tensor] : model.parameters()) parameters.push_back({name, tensor.value()});
  return bits_of(parameters);
}

// Trains on `batch` samples a step, divided among the ranks. Returns all parameters, concatenated.
std::vector<float> train(nn::Module& model, Group group, int steps, std::int64_t batch) {
  DistributedDataParallel ddp(model, group, {.buckets = {.first_bytes = 64, .bytes = 512}});
  optim::SGD optimizer(model.parameters(), {.lr = 0.05, .momentum = 0.9});
  nn::CrossEntropyLoss criterion;
  const std::int64_t share = batch / group->size();
  for (int step = 0; step < steps; ++step) {
    const Samples samples(step * batch + group->rank() * share, share);
    const Tensor loss = criterion(ddp(samples.images), samples.labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    const auto mine = bits_of_parameters(model);
    for (const auto& other : group->all_gather_strings(mine, "bits")) EXPECT_TRUE(other == mine) << "step " << step;
  }
  std::vector<float> values;
  for (const auto& [name, tensor] : model.parameters()) {
    const auto v = tensor.value().to_vector<float>();
    values.insert(values.end(), v.begin(), v.end());
  }
  return values;
}

TEST(DistributedDataParallel, needs_a_group) {
  nn::Linear model(2, 2);
  EXPECT_ERROR(const DistributedDataParallel ddp(model, nullptr), "DistributedDataParallel", "null", "init()");
}

// A parameter with two names has one gradient, in one bucket.
TEST(DistributedDataParallel, tied_weights_stay_equal_on_all_ranks) {
  struct Tied : nn::Module {
    nn::Linear& first = add("first", nn::Linear(4, 4, {.bias = false}));
    nn::Linear& second = add("second", nn::Linear(4, 4, {.bias = false}));
    Tied() { tie(second.weight, first.weight); }
    Tensor forward(const Tensor& x) override { return second(first(x)); }
  };
  const auto train_tied = [](Group group) {
    manual_seed(static_cast<std::uint64_t>(group->rank()));
    Tied model;
    DistributedDataParallel ddp(model, group);
    optim::SGD optimizer(model.parameters(), {.lr = 0.01});
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      sum(ddp(Tensor(ops::full({2, 4}, group->size() == 1 ? 1.5 : 1 + group->rank())))).backward();
      optimizer.step();
    }
    EXPECT_TRUE(model.first.weight.same_as(model.second.weight));
    return model.first.weight.value().to_vector<float>();
  };
  std::vector<float> together[2];
  run_ranks(2, [&](Group group) { together[group->rank()] = train_tied(group); });
  EXPECT_EQ(together[0], together[1]);
}

// Returns rank 0's stderr. Three ranks take two steps, each on samples that begin at first(rank).
template <class First>
std::string said_of_steps(First first) {
  ::testing::internal::CaptureStderr();
  run_ranks(3, [&](Group group) {
    manual_seed(1);
    auto model = plain_network();
    DistributedDataParallel ddp(model, group);
    for (int step = 0; step < 2; ++step) {
      const Samples samples(first(group->rank()), 4);
      nn::CrossEntropyLoss()(ddp(samples.images), samples.labels).backward();
    }
  });
  return ::testing::internal::GetCapturedStderr();
}

TEST(DistributedDataParallel, says_that_all_ranks_take_the_same_samples) {
  const std::string said = said_of_steps([](int) { return 7; });
  const auto at = said.find("all 3 ranks have the same gradients");
  EXPECT_NE(at, std::string::npos) << said;
  EXPECT_NE(said.find("shard_of(*group)"), std::string::npos) << said;
  EXPECT_EQ(said.find("all 3 ranks", at + 1), std::string::npos) << "said twice: " << said;

  EXPECT_EQ(said_of_steps([](int rank) { return 7 + 4 * rank; }), "");
  EXPECT_EQ(said_of_steps([](int rank) { return rank == 2 ? 11 : 7; }), "") << "two of three have the same samples";
}

TEST(DistributedDataParallel, several_ranks_equal_one_with_the_batch_put_together) {
  manual_seed(1);
  auto single = plain_network();
  const auto expected = train(single, local_group(), 8, 24);
  for (const int size : {2, 3, 4}) {
    run_ranks(size, [&](Group group) {
      manual_seed(1 + group->rank());  // all ranks start with rank 0's weights
      auto model = plain_network();
      const auto found = train(model, group, 8, 24);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-6) << "parameter " << i;
    });
  }
}

TEST(DistributedDataParallel, parameters_are_identical_to_the_bit_with_batch_norm_too) {
  run_ranks(3, [](Group group) {
    manual_seed(group->rank());
    auto model = network_with_batch_norm();
    train(model, group, 5, 24);
  });
}

TEST(DistributedDataParallel, gives_every_rank_the_values_of_rank_0) {
  manual_seed(0);
  auto expected = network_with_batch_norm();
  run_ranks(3, [&](Group group) {
    manual_seed(group->rank());
    auto model = network_with_batch_norm();
    for (auto& [name, array] : model.state_dict()) {
      if (name == "1.running_mean") Array(array).fill(group->rank());
    }
    const auto address = model.parameters()[0].tensor.value().raw();
    DistributedDataParallel ddp(model, group);
    EXPECT_EQ(bits_of(model.state_dict()), bits_of(expected.state_dict()));
    EXPECT_EQ(model.parameters()[0].tensor.value().raw(), address);
  });
}

TEST(DistributedDataParallel, evaluates_with_the_buffers_of_rank_0) {
  run_ranks(2, [](Group group) {
    manual_seed(0);
    auto model = network_with_batch_norm();
    DistributedDataParallel ddp(model, group);
    // A model with the buffers of a rank 0 that trains alone.
    manual_seed(0);
    auto alone = network_with_batch_norm();
    for (int step = 0; step < 3; ++step) {
      ddp(Samples(step * 16 + group->rank() * 8, 8).images);
      alone(Samples(step * 16, 8).images);
    }
    ddp.eval();
    EXPECT_EQ(bits_of(model.state_dict()), bits_of(alone.state_dict()));

    // The same happens if the program sets only the mode of the model. The ranks then synchronise in the forward pass.
    model.train();
    alone.train();
    ddp(Samples(48 + group->rank() * 8, 8).images);
    alone(Samples(48, 8).images);
    model.eval();
    ddp(Samples(0, 1).images);
    EXPECT_EQ(bits_of(model.state_dict()), bits_of(alone.state_dict()));
  });
}

// A module whose training depends on a buffer: each forward pass multiplies by it, and then changes it.
struct Drifting : nn::Module {
  nn::Linear& linear = add("linear", nn::Linear(2, 2));
  Tensor factor = add_buffer("factor", ops::ones({1}));
  double drift = 0;
  Tensor forward(const Tensor& x) override {
    const Tensor y = linear(x) * factor.value().item();
    Array value = factor.value();
    value.fill(value.item() + drift);
    return y;
  }
};

TEST(DistributedDataParallel, shares_a_buffer_that_training_reads_before_every_forward) {
  run_ranks(2, [](Group group) {
    Drifting model;
    model.drift = group->rank() + 1;
    DistributedDataParallel ddp(model, group);
    for (int step = 0; step < 3; ++step) ddp(ops::ones({1, 2}));
    EXPECT_EQ(model.factor.value().item(), group->rank() == 0 ? 4 : 5);
  });
}

// The batch norm has two names. It counts once among the modules whose buffers training does not read.
struct DriftingBesideASharedNorm : nn::Module {
  DriftingBesideASharedNorm() {
    const auto norm = std::make_shared<nn::BatchNorm2d>(2);
    add_child("norm", norm);
    add_child("again", norm);
  }
  Drifting& drifting = add("drifting", Drifting());
  Tensor forward(const Tensor& x) override { return drifting(x); }
};

TEST(DistributedDataParallel, counts_a_shared_batch_norm_once) {
  run_ranks(2, [](Group group) {
    DriftingBesideASharedNorm model;
    model.drifting.drift = group->rank() + 1;
    DistributedDataParallel ddp(model, group);
    for (int step = 0; step < 3; ++step) ddp(ops::ones({1, 2}));
    EXPECT_EQ(model.drifting.factor.value().item(), group->rank() == 0 ? 4 : 5);
  });
}

TEST(DistributedDataParallel, names_the_first_difference_of_two_models) {
  const auto results = run_ranks_catching(3, [](Group group) {
    nn::Sequential model{nn::Linear(4, group->rank() == 2 ? 6 : 5), nn::Linear(5, 5)};
    DistributedDataParallel ddp(model, group);
  });
  for (const auto& result : results) {
    EXPECT_NE(
        message_of(result).find("the models of rank 0 and rank 2 differ: rank 0 has parameter 0.weight f32 (5, 4), "
                                "rank 2 has parameter 0.weight f32 (6, 4)"),
        std::string::npos)
        << message_of(result);
  }
}

TEST(DistributedDataParallel, names_what_one_model_lacks) {
  const auto results = run_ranks_catching(2, [](Group group) {
    auto model =
        group->rank() == 0 ? nn::Sequential{nn::Linear(4, 5)} : nn::Sequential{nn::Linear(4, 5), nn::Linear(5, 5)};
    DistributedDataParallel ddp(model, group);
  });
  EXPECT_NE(message_of(results[0]).find("rank 0 has nothing more, rank 1 has parameter 1.weight f32 (5, 5)"),
            std::string::npos)
      << message_of(results[0]);
}

TEST(DistributedDataParallel, an_unused_parameter_is_an_error_on_every_rank) {
  const auto results = run_ranks_catching(2, [](Group group) {
    testing::Branches model;
    model.both = group->rank() == 0;
    DistributedDataParallel ddp(model, group, {.buckets = {.first_bytes = 1, .bytes = 1}});
    sum(ddp(ops::ones({1, 2}))).backward();
  });
  for (const auto& result : results) {
    EXPECT_NE(message_of(result).find("rank 1: 2 of 4 parameters got no gradient in this backward pass: "
                                      "sometimes.weight, sometimes.bias."),
              std::string::npos)
        << message_of(result);
  }
}

// The graph saves this buffer. The second forward pass copies rank 0's value, which must not change what the first one
// saved.
TEST(DistributedDataParallel, takes_two_forwards_before_one_backward_with_a_buffer_that_changes) {
  run_ranks(2, [](Group group) {
    struct Scaled : nn::Module {
      nn::Linear& linear = add("linear", nn::Linear(2, 2));
      Tensor factor = add_buffer("factor", ops::ones({2}));
      Tensor forward(const Tensor& x) override { return linear(x) * factor; }
    } model;
    DistributedDataParallel ddp(model, group);
    const Tensor first = sum(ddp(ops::ones({1, 2})));
    if (group->rank() == 0) model.factor.set_value(ops::full({2}, 3));
    const Tensor second = sum(ddp(ops::ones({1, 2})));
    (first + second).backward();
    EXPECT_EQ(model.linear.bias.grad().data<float>()[0], 4);
  });
}

TEST(DistributedDataParallel, rebuilds_its_buckets_under_the_feet_of_the_optimizer) {
  manual_seed(1);
  auto single = plain_network();
  const auto expected = train(single, local_group(), 6, 24);
  run_ranks(2, [&](Group group) {
    manual_seed(1);
    auto model = plain_network();
    // The gradients become ready in a different order from that of registration, so the buckets are rebuilt once.
    const void* before = nullptr;
    DistributedDataParallel ddp(model, group, {.buckets = {.first_bytes = 64, .bytes = 512}});
    optim::SGD optimizer(model.parameters(), {.lr = 0.05, .momentum = 0.9});
    const nn::CrossEntropyLoss criterion;
    for (int step = 0; step < 6; ++step) {
      const Samples samples(step * 24 + group->rank() * 12, 12);
      optimizer.zero_grad();
      criterion(ddp(samples.images), samples.labels).backward();
      optimizer.step();
      const void* now = model.parameters()[0].tensor.grad().raw();
      if (step > 0) {
        EXPECT_EQ(now, before) << "once is enough";
      }
      before = now;
    }
    std::size_t i = 0;
    for (const auto& [name, tensor] : model.parameters()) {
      for (const float v : tensor.value().to_vector<float>()) EXPECT_NEAR(v, expected[i++], 2e-6) << name;
    }
  });
}

// Over Gloo's ring, the sums of three ranks depend on the position of a gradient in its bucket.
TEST(DistributedDataParallel, gives_and_takes_the_order_of_the_gradients) {
  run_ranks(
      3,
      [](Group group) {
        const auto pass = [&](nn::Module& model, DistributedDataParallel& ddp) {
          for (const auto& [name, tensor] : model.parameters()) Tensor(tensor).zero_grad();
          sum(exp(ddp(Tensor(testing::noise_array({2, 256}, group->rank() * 512))))).backward();
          std::vector<NamedArray> gradients;
          for (const auto& [name, tensor] : model.parameters()) gradients.push_back({name, tensor.grad()});
          return bits_of(gradients);
        };
        const auto make = [] {
          manual_seed(3);
          return nn::Sequential{nn::Linear(256, 256), nn::Linear(256, 64)};
        };
        nn::Sequential first = make(), second = make();
        DistributedDataParallel ddp(first, group);
        EXPECT_TRUE(ddp.state_dict().empty());
        const auto begin = pass(first, ddp);
        const auto state = ddp.state_dict();
        ASSERT_EQ(state.size(), 1u);
        EXPECT_EQ(state[0].name, "gradient_order");
        const auto expected = pass(first, ddp);

        DistributedDataParallel resumed(second, group);
        EXPECT_ERROR(resumed.load_state_dict({{"order", state[0].array}}), "named order",
                     "expected one, named gradient_order");
        EXPECT_ERROR(
            resumed.load_state_dict({{"gradient_order", Array::from(std::vector<std::int64_t>{0, 1, 1, 3}, {4})}}),
            "gradient_order is an order of 4 gradients", "not those of the 4 parameters");
        resumed.load_state_dict({});
        EXPECT_TRUE(resumed.state_dict().empty());
        resumed.load_state_dict(state);
        EXPECT_EQ(bits_of(resumed.state_dict()), bits_of(state));
        EXPECT_TRUE(pass(second, resumed) == expected);
        // With an empty state, the order is found again from the beginning.
        EXPECT_TRUE(begin != expected);
        resumed.load_state_dict({});
        EXPECT_TRUE(resumed.state_dict().empty());
        EXPECT_TRUE(pass(second, resumed) == begin);
        EXPECT_EQ(bits_of(resumed.state_dict()), bits_of(state));
      },
      std::chrono::seconds(60), "gloo");
}

// --- Differences between the ranks after construction ---

TEST(DistributedDataParallel, refuses_a_model_that_another_one_averages) {
  for (const int size : {1, 2}) {
    run_ranks(size, [](Group group) {
      auto net = plain_network();
      {
        DistributedDataParallel first(net, group);
        EXPECT_ERROR(const DistributedDataParallel second(net, group), "belongs to another DistributedDataParallel");
      }
      DistributedDataParallel next(net, group);  // the first DistributedDataParallel no longer exists
    });
  }
}

TEST(DistributedDataParallel, names_a_parameter_that_came_later) {
  struct Grown : nn::Module {
    nn::Linear& line = add("line", nn::Linear(4, 2));
    nn::Linear* late = nullptr;
    void grow() { late = &add("late", nn::Linear(2, 2)); }
    Tensor forward(const Tensor& x) override { return late ? (*late)(line(x)) : line(x); }
  };
  for (const int size : {1, 2}) {
    run_ranks(size, [](Group group) {
      Grown net;
      DistributedDataParallel ddp(net, group);
      const Tensor x(ops::ones({3, 4}));
      sum(ddp(x)).backward();
      nn::Linear unrelated(2, 2);
      Grown another;
      another.grow();
      sum(ddp(x)).backward();
      net.grow();
      EXPECT_ERROR(ddp(x), "late.weight", "after DistributedDataParallel was made");
    });
  }
}

TEST(DistributedDataParallel, finds_weights_that_one_rank_changed_alone) {
  const auto results = run_ranks_catching(
      3,
      [](Group group) {
        manual_seed(0);
        nn::Sequential net{nn::Linear(4, 3), nn::ReLU(), nn::Linear(3, 2)};
        DistributedDataParallel ddp(net, group);
        optim::SGD optimizer(net.parameters(), {.lr = 0.1});
        for (int step = 0; step < 250; ++step) {
          optimizer.zero_grad();
          sum(ddp(Tensor(ops::full({2, 4}, 0.1 * (group->rank() + 1))))).backward();
          optimizer.step();
          if (step == 120 && group->rank() == 2) optimizer.set_lr(0.2);
        }
      },
      std::chrono::seconds(60));
  for (const auto& result : results) {
    const std::string message = message_of(result);
    EXPECT_TRUE(message.find("first parameter that differs is ") != std::string::npos &&
                message.find("which on rank 2 differs") != std::string::npos)
        << message;
  }
}

// Most mistakes differ in the first steps already, and many jobs have fewer than 100.
TEST(DistributedDataParallel, finds_weights_that_differ_after_a_few_steps) {
  const auto results = run_ranks_catching(2, [](Group group) {
    manual_seed(0);
    nn::Sequential net{nn::Linear(4, 3)};
    DistributedDataParallel ddp(net, group);
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    for (int step = 0; step < 10; ++step) {
      optimizer.zero_grad();
      sum(ddp(Tensor(ops::full({2, 4}, 0.1)))).backward();
      optimizer.step();
      if (step == 2 && group->rank() == 1) optimizer.set_lr(0.2);
    }
  });
  for (const auto& result : results)
    EXPECT_NE(message_of(result).find("first parameter that differs is 0.weight, which on rank 1 differs"),
              std::string::npos)
        << message_of(result);
}

TEST(DistributedDataParallel, names_two_models_that_ranks_use_in_different_orders) {
  for (const bool has_hook : {false, true}) {
    const auto results = run_ranks_catching(2, [&](Group group) {
      nn::Sequential p{nn::Linear(4, 3)}, q{nn::Linear(4, 3)};
      DistributedDataParallel of_p(p, group), of_q(q, group);
      if (has_hook)
        for (auto* ddp : {&of_p, &of_q}) ddp->set_communication_hook(all_reduce_hook());
      const Tensor x(ops::ones({2, 4}));
      auto& first = group->rank() == 0 ? of_p : of_q;
      auto& second = group->rank() == 0 ? of_q : of_p;
      sum(first(x)).backward();
      sum(second(x)).backward();
    });
    for (const auto& result : results)
      testing::expect_parts(message_of(result),
                            {"gradient bucket 0", "gradient bucket 0 of DistributedDataParallel 2"});
  }
}

TEST(DistributedDataParallel, finds_frozen_weights_that_one_rank_loaded_alone) {
  const auto results = run_ranks_catching(2, [](Group group) {
    nn::Sequential net{nn::Linear(4, 3), nn::ReLU(), nn::Linear(3, 2)};
    Tensor frozen = net.parameters()[0].tensor;
    frozen.set_requires_grad(false);
    DistributedDataParallel ddp(net, group);
    sum(ddp(Tensor(ops::ones({2, 4})))).backward();
    if (group->rank() == 1) Array(frozen.value()).copy_from(ops::ones({3, 4}));
    ddp.check_same_weights();
  });
  for (const auto& result : results)
    EXPECT_NE(message_of(result).find("first parameter that differs is 0.weight, which on rank 1 differs"),
              std::string::npos)
        << message_of(result);
}

TEST(DistributedDataParallel, names_the_rank_that_evaluates_alone) {
  const auto results = run_ranks_catching(2, [](Group group) {
    nn::Sequential net{nn::Conv2d(1, 2, 1), nn::BatchNorm2d(2)};
    DistributedDataParallel ddp(net, group);
    const Tensor images(ops::ones({2, 1, 3, 3}));
    sum(ddp(images)).backward();
    if (group->rank() == 1) ddp.eval();
    else sum(ddp(images)).backward();
  });
  for (const auto& result : results)
    testing::expect_parts(message_of(result), {"rank 1", "broadcast", "buffers", "all_reduce", "gradient bucket 0"});
}

TEST(DistributedDataParallel, names_the_rank_that_began_an_epoch_alone) {
  const auto results = run_ranks_catching(
      2,
      [](Group group) {
        nn::Sequential net{nn::Linear(1, 2)};
        DistributedDataParallel ddp(net, group);
        const data::ArrayDataset rows(ops::ones({8, 1}), ops::zeros({8}, DType::i64));
        data::Loader loader(rows, {.batch_size = 2, .shard = shard_of(*group), .shuffle = true});
        if (group->rank() == 1) loader.begin();  // as a program that looks at one batch
        for (auto& [x, y] : loader) cross_entropy(ddp(x), y).backward();
      },
      std::chrono::seconds(60));
  for (const auto& result : results) {
    const std::string message = message_of(result);
    EXPECT_NE(message.find("rank 1 uses its shard of a different epoch of the Loader than rank 0, which is in 0"),
              std::string::npos)
        << message;
  }
}

TEST(DistributedDataParallel, names_the_rank_that_shuffles_with_another_seed) {
  const auto results = run_ranks_catching(
      2,
      [](Group group) {
        nn::Sequential net{nn::Linear(1, 2)};
        DistributedDataParallel ddp(net, group);
        const data::ArrayDataset rows(ops::ones({8, 1}), ops::zeros({8}, DType::i64));
        const std::uint64_t seed = group->rank() == 1 ? 7 : 1;
        data::Loader loader(rows, {.batch_size = 2, .shard = shard_of(*group), .shuffle = true, .seed = seed});
        for (auto& [x, y] : loader) cross_entropy(ddp(x), y).backward();
      },
      std::chrono::seconds(60));
  for (const auto& result : results) {
    const std::string message = message_of(result);
    EXPECT_NE(message.find("rank 1 shuffles with a different seed than rank 0"), std::string::npos) << message;
  }
}

// Between two steps, a rank may call the model any number of times.
TEST(DistributedDataParallel, compares_after_the_same_pass_on_all_ranks) {
  run_ranks(2, [](Group group) {
    manual_seed(0);
    nn::Sequential net{nn::Linear(4, 2)};
    DistributedDataParallel ddp(net, group);
    const Tensor x(ops::ones({2, 4}));
    for (int step = 0; step < 130; ++step) {
      for (int i = 0; i < group->rank(); ++i) ddp(x);
      net.zero_grad();
      sum(ddp(x)).backward();
    }
  });
}

TEST(DistributedDataParallel, a_construction_that_fails_leaves_no_hook) {
  run_ranks(1, [](Group group) {
    struct Both : nn::Module {
      nn::Linear& head = add("head", nn::Linear(2, 2));
      std::shared_ptr<nn::Linear> body = std::make_shared<nn::Linear>(2, 2);
      Both() { add_child("body", body); }
      Tensor forward(const Tensor& x) override { return head((*body)(x)); }
    } both;
    DistributedDataParallel of_body(*both.body, group);
    EXPECT_ERROR(const DistributedDataParallel whole(both, group), "body.weight", "another DistributedDataParallel");
    sum(both(Tensor(ops::ones({1, 2})))).backward();
    EXPECT_TRUE(both.head.weight.grad().defined());
  });
}

// A gradient lies in a bucket, which the next backward pass fills again, with one rank as with two.
TEST(DistributedDataParallel, a_kept_gradient_is_an_error_after_the_next_backward_pass) {
  for (const int ranks : {1, 2}) {
    run_ranks(ranks, [](Group group) {
      nn::Sequential net{nn::Linear(1, 2)};
      DistributedDataParallel ddp(net, group);
      const auto pass = [&](double x) { sum(ddp(Tensor(ops::full({2, 1}, x)))).backward(); };
      pass(1);
      const Array kept = net.parameters()[0].tensor.grad(), copy = kept.clone();
      EXPECT_EQ(kept.to_vector<float>(), (std::vector<float>{2, 2}));
      net.zero_grad();
      pass(3);
      EXPECT_ERROR(kept.to_vector<float>(), "a later backward pass has replaced it", "grad().clone()");
      EXPECT_EQ(copy.to_vector<float>(), (std::vector<float>{2, 2}));
      EXPECT_EQ(net.parameters()[0].tensor.grad().to_vector<float>(), (std::vector<float>{6, 6}));
    });
  }
}

TEST(DistributedDataParallel, leaves_frozen_parts_in_their_mode) {
  run_ranks(1, [](Group group) {
    auto net = network_with_batch_norm();
    DistributedDataParallel ddp(net, group);
    nn::Module* norm = nullptr;
    for (const auto& [name, module] : net.modules())
      if (dynamic_cast<nn::BatchNorm2d*>(&module)) norm = &module;
    ASSERT_NE(norm, nullptr);
    norm->eval();
    ddp.train();
    EXPECT_FALSE(norm->is_training());
    ddp.eval();
    EXPECT_FALSE(net.is_training());
    ddp.train();
    EXPECT_TRUE(net.is_training());
    EXPECT_FALSE(norm->is_training());
  });
}

}  // namespace
}  // namespace tandem::distributed
