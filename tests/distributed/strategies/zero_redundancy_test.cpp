// ZeroRedundancy trains as DistributedDataParallel does, in less memory.
#include <tandem/core/device/memory_stats.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/ddp/join.h>
#include <tandem/distributed/groups/forwarding_group.h>
#include <tandem/distributed/groups/local_group.h>
#include <tandem/distributed/strategies/parameter_shards.h>
#include <tandem/distributed/strategies/zero_redundancy.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/loss.h>
#include <tandem/nn/sequential.h>
#include <tandem/optim/adam.h>
#include <tandem/optim/clip.h>
#include <tandem/optim/grad_scaler.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>
#include <support/arrays.h>
#include <support/ranks.h>
#include <support/small_training.h>
#include <support/temporary_folder.h>

#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../../../apps/examples/muon.h"

namespace tandem::distributed {
namespace {

using testing::expect_close;
using testing::expect_same;
using testing::Group;
using testing::plain_network;
using testing::run_ranks;
using testing::Samples;

constexpr std::chrono::seconds timeout(60);
constexpr BucketSizes small_buckets{.first_bytes = 64, .bytes = 512};

// ---- Shards

TEST(ParameterShards, belong_to_one_rank_each) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const Array& array : {testing::counting({7}), testing::counting({4, 3}), testing::counting({}),
                               testing::counting({2, 3, 4, 5}).channels_last()}) {
      const auto memory = shard(array, 0, 1).to_vector<float>();
      std::vector<float> joined;
      for (int r = 0; r < ranks; ++r) {
        const auto mine = shard(array, r, ranks).to_vector<float>();
        EXPECT_LE(static_cast<std::int64_t>(mine.size()), (array.numel() + ranks - 1) / ranks);
        joined.insert(joined.end(), mine.begin(), mine.end());
      }
      EXPECT_EQ(joined, memory) << array.shape() << " on " << ranks << " ranks";
    }
  }
  EXPECT_ERROR(shard(testing::strided(testing::counting({2, 3})), 0, 2), "has gaps in memory");
}

TEST(ParameterShards, travel_to_their_ranks_and_back) {
  for (const char* const backend : {"shm", "gloo"}) {
    for (const int ranks : {1, 2, 3, 4}) {
      run_ranks(
          ranks,
          [&](Group group) {
            const int rank = group->rank();
            std::vector<Array> arrays{testing::counting({10, 3}), testing::counting({1}), testing::counting({5})};
            for (Array& array : arrays) ops::scale_(array, rank + 1);
            std::vector<Array> sums = shards({ops::zeros({10, 3}), ops::zeros({1}), ops::zeros({5})}, rank, ranks);
            std::deque<std::shared_ptr<Work>> in_flight;
            for (const bool adds : {false, true, true})
              reduce_scatter_shards(arrays, sums, adds, *group, "gradients", in_flight);
            EXPECT_EQ(in_flight.size(), 2u);
            for (const auto& work : in_flight) work->wait();
            // The mean of 1, 2, ... is a multiple of a half, so three of them add up exactly.
            const double factor = 3 * (ranks + 1) / 2.0;
            for (std::size_t i = 0; i < arrays.size(); ++i) {
              auto expected = testing::counting(arrays[i].shape());
              ops::scale_(expected, factor);
              expect_close(shard(expected, rank, ranks), sums[i], 1e-6, "array " + std::to_string(i));
              shard(arrays[i], 0, 1).copy_from(shard(testing::counting(arrays[i].shape()), 0, 1));
              for (int r = 0; r < ranks; ++r)
                if (r != rank) shard(arrays[i], r, ranks).fill(-1);
            }
            all_gather_shards(arrays, *group, "parameters");
            for (const Array& array : arrays) expect_same(testing::counting(array.shape()), array, "gathered");
            const Array whole = gather_shards(shard(arrays[0], rank, ranks), arrays[0], *group, "state");
            EXPECT_EQ(whole.defined(), rank == 0);
            if (rank == 0) expect_same(arrays[0], whole, "whole");
          },
          timeout, backend);
    }
  }
}

// ---- Trains as DistributedDataParallel

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(nn::Module&)>;
template <class T, class... Args>
MakeOptimizer maker(Args... args) {
  return [=](nn::Module& model) -> std::unique_ptr<optim::Optimizer> {
    return std::make_unique<T>(model.parameters(), args...);
  };
}

const MakeOptimizer make_sgd = maker<optim::SGD>(optim::SGDOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3});

// The biases have another learning rate, and no decay.
std::unique_ptr<optim::Optimizer> make_adamw(nn::Module& model) {
  optim::AdamWGroup weights{{}, {.lr = 0.01, .weight_decay = 0.1}}, biases{{}, {.lr = 0.02, .weight_decay = 0}};
  for (const auto& parameter : model.parameters())
    (parameter.name.ends_with("bias") ? biases : weights).parameters.push_back(parameter);
  return std::make_unique<optim::AdamW>(std::vector{weights, biases});
}

// The ranks can't have equal shards of its parameters: two have one number, and some have three. The convolution is not
// trained.
nn::Sequential uneven_network() {
  nn::Sequential model{nn::Conv2d(1, 3, 3), nn::BatchNorm2d(3),       nn::ReLU(),
                       nn::Flatten(),       nn::Linear(3 * 6 * 6, 1), nn::Linear(1, 10)};
  for (auto& [name, tensor] : model.parameters())
    if (name.starts_with("0.")) tensor.set_requires_grad(false);
  return model;
}

// A network with a single number as its only parameter.
nn::Sequential one_number() {
  struct Scale : nn::Module {
    Tensor scale = add_parameter("scale", ops::ones({1}));
    Tensor forward(const Tensor& x) override { return x * scale; }
  };
  return nn::Sequential{nn::Flatten(), Scale()};
}

// A model, and how to train it on one rank. Stage 0 is DistributedDataParallel.
class Job {
 public:
  Job(Group group, int stage, const MakeOptimizer& make_optimizer,
      const std::function<nn::Sequential()>& make_model = plain_network)
      : group_(std::move(group)), model_([&] {
          manual_seed(1 + group_->rank());  // all ranks start with rank 0's weights
          return make_model();
        }()) {
    if (stage > 0) {
      zero_.emplace(model_, group_, ZeroRedundancyOptions{.stage = stage, .buckets = small_buckets});
    } else {
      ddp_.emplace(model_, group_, DistributedDataParallelOptions{.buckets = small_buckets});
    }
    optimizer_ = make_optimizer(model_);
    if (zero_) zero_->use(*optimizer_);
  }

  // Takes the steps from `begin` to `end - 1`, each with `parts` backward passes. All but the last pass are local
  // unless adds_shards.
  void train(int begin, int end, int parts = 1, double max_norm = 0, bool adds_shards = false) {
    constexpr std::int64_t batch = 24;
    const std::int64_t share = batch / group_->size() / parts;
    for (int step = begin; step < end; ++step) {
      zero_ ? zero_->zero_grad() : model_.zero_grad();
      for (int part = 0; part < parts; ++part) {
        const Samples samples(step * batch + (group_->rank() * parts + part) * share, share);
        const auto local = ddp().no_sync(part + 1 < parts && !adds_shards);
        (nn::CrossEntropyLoss()(ddp()(samples.images), samples.labels) / static_cast<float>(parts)).backward();
      }
      update(max_norm);
    }
  }
  DistributedDataParallel& ddp() { return zero_ ? zero_->ddp() : *ddp_; }
  ZeroRedundancy& zero() { return *zero_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  nn::Module& model() { return model_; }
  double norm() const { return norm_; }
  double norm_1() const { return norm_1_; }

 private:
  void update(double max_norm) {
    if (max_norm == 0) return zero_ ? zero_->step() : optimizer_->step();
    const auto parameters = optimizer_->parameters();
    if (!zero_) {
      norm_1_ = optim::grad_norm(parameters, 1).item();
      norm_ = optim::clip_grad_norm_(parameters, max_norm).item();
      return optimizer_->step();
    }
    zero_->step([&] {
      norm_1_ = zero_->grad_norm(parameters, 1).item();
      norm_ = zero_->clip_grad_norm_(parameters, max_norm).item();
      optimizer_->step();
    });
  }

  Group group_;
  nn::Sequential model_;
  std::optional<ZeroRedundancy> zero_;
  std::optional<DistributedDataParallel> ddp_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  double norm_ = 0, norm_1_ = 0;  // of the last step that was clipped
};

void expect_equal(const std::vector<NamedArray>& expected, const std::vector<NamedArray>& found, double tolerance) {
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(expected[i].name, found[i].name);
    if (tolerance == 0) expect_same(expected[i].array, found[i].array, expected[i].name);
    else expect_close(expected[i].array, found[i].array, tolerance, expected[i].name);
  }
}

TEST(ZeroRedundancy, gives_the_bits_of_ddp_over_shared_memory) {
  for (const auto& make : {make_sgd, MakeOptimizer(make_adamw)}) {
    for (const int ranks : {1, 2, 3, 4}) {
      run_ranks(
          ranks,
          [&](Group group) {
            Job ddp(group, 0, make);
            ddp.train(0, 8);
            for (const int stage : {1, 2}) {
              SCOPED_TRACE("stage " + std::to_string(stage) + " on " + std::to_string(ranks));
              Job zero(group, stage, make);
              zero.train(0, 8);
              expect_equal(ddp.model().state_dict(), zero.model().state_dict(), 0);
              const auto state = zero.zero().state_dict(zero.optimizer());
              if (group->rank() == 0) expect_equal(ddp.optimizer().state_dict(), state, 0);
              else EXPECT_TRUE(state.empty());
            }
          },
          timeout, "shm");
    }
  }
}

TEST(ZeroRedundancy, trains_over_tcp) {
  run_ranks(
      3,
      [](Group group) {
        Job ddp(group, 0, make_adamw), first(group, 1, make_adamw), second(group, 2, make_adamw);
        for (Job* const job : {&ddp, &first, &second}) job->train(0, 8);
        expect_equal(ddp.model().state_dict(), first.model().state_dict(), 1e-5);
        expect_equal(ddp.model().state_dict(), second.model().state_dict(), 1e-5);
      },
      timeout, "gloo");
}

TEST(ZeroRedundancy, accumulates) {
  run_ranks(
      2,
      [](Group group) {
        Job ddp(group, 0, make_adamw), first(group, 1, make_adamw), second(group, 2, make_adamw),
            adding(group, 2, make_adamw);
        for (Job* const job : {&ddp, &first, &second}) job->train(0, 6, 3);
        adding.train(0, 6, 3, 0, true);
        expect_equal(ddp.model().state_dict(), first.model().state_dict(), 0);
        expect_equal(ddp.model().state_dict(), second.model().state_dict(), 0);
        expect_equal(ddp.model().state_dict(), adding.model().state_dict(), 1e-4);  // other order of the sum
      },
      timeout, "shm");
}

// There are frozen parameters, a batch norm with buffers, an evaluation between two steps, and more ranks than a
// parameter has numbers.
TEST(ZeroRedundancy, suits_parameters_with_fewer_numbers_than_there_are_ranks) {
  const std::pair<nn::Sequential (*)(), MakeOptimizer> cases[] = {
      {uneven_network, make_adamw}, {one_number, maker<optim::Adam>(optim::AdamOptions{.lr = 0.01})}};
  for (const auto& [make_model, make_optimizer] : cases) {
    for (const int ranks : {2, 3, 5}) {
      run_ranks(
          ranks,
          [&, make = make_model, with = make_optimizer](Group group) {
            const auto evaluated = [](Job& job) {
              job.ddp().eval();
              const Array scores = job.ddp()(Samples(1000, 6).images).value();
              job.ddp().train();
              return scores;
            };
            Job ddp(group, 0, with, make), clipped_ddp(group, 0, with, make);
            ddp.train(0, 3);
            const Array scores = evaluated(ddp);
            ddp.train(3, 6);
            clipped_ddp.train(0, 6, 1, 0.01);
            for (const int stage : {1, 2}) {
              SCOPED_TRACE("stage " + std::to_string(stage) + " on " + std::to_string(ranks));
              Job zero(group, stage, with, make), clipped(group, stage, with, make);
              zero.train(0, 3);
              expect_same(scores, evaluated(zero), "scores");
              zero.train(3, 6);
              expect_equal(ddp.model().state_dict(), zero.model().state_dict(), 0);
              const auto state = zero.zero().state_dict(zero.optimizer());
              if (group->rank() == 0) expect_equal(ddp.optimizer().state_dict(), state, 0);
              zero.zero().load_state_dict(zero.optimizer(), ddp.optimizer().state_dict());
              const auto again = zero.zero().state_dict(zero.optimizer());
              if (group->rank() == 0) expect_equal(state, again, 0);
              clipped.train(0, 6, 1, 0.01);
              EXPECT_NEAR(clipped.norm() / clipped_ddp.norm(), 1, 1e-5);
              expect_equal(clipped_ddp.model().state_dict(), clipped.model().state_dict(), 1e-5);
            }
          },
          timeout, "shm");
    }
  }
}

TEST(ZeroRedundancy, treats_unused_parameters_as_ddp_does) {
  for (const Unused unused : {Unused::skip, Unused::zero}) {
    run_ranks(
        2,
        [&](Group group) {
          const auto train = [&](bool divides) {
            manual_seed(1);
            testing::Branches model;
            std::optional<ZeroRedundancy> zero;
            std::optional<DistributedDataParallel> ddp;
            if (divides) zero.emplace(model, group, ZeroRedundancyOptions{.unused = unused});
            else ddp.emplace(model, group, DistributedDataParallelOptions{.unused = unused});
            optim::AdamW optimizer(model.parameters(), {.lr = 0.1, .weight_decay = 0.1});
            if (zero) zero->use(optimizer);
            for (int step = 0; step < 4; ++step) {
              zero ? zero->zero_grad() : model.zero_grad();
              model.both = step == 0 || (step == 1 && group->rank() == 1);  // then on no rank
              sum((zero ? zero->ddp() : *ddp)(testing::noise_array({3, 2}, 10 * step + group->rank()))).backward();
              zero ? zero->step() : optimizer.step();
            }
            return model.state_dict();
          };
          expect_equal(train(false), train(true), 0);
        },
        timeout, "shm");
  }
}

TEST(ZeroRedundancy, clips_by_the_norm_over_all_ranks) {
  for (const int ranks : {2, 3}) {
    run_ranks(ranks, [](Group group) {
      Job ddp(group, 0, make_sgd);
      ddp.train(0, 8, 1, 0.1);
      for (const int stage : {1, 2}) {
        Job zero(group, stage, make_sgd);
        zero.train(0, 8, 1, 0.1);
        EXPECT_NEAR(zero.norm() / ddp.norm(), 1, 1e-5);
        EXPECT_NEAR(zero.norm_1() / ddp.norm_1(), 1, 1e-5);
        EXPECT_GT(zero.norm(), 0.1);  // it is clipped
        EXPECT_EQ(zero.norm(), group->max(zero.norm()));
        expect_equal(ddp.model().state_dict(), zero.model().state_dict(), 1e-5);
      }
    });
  }
}

TEST(ZeroRedundancy, an_infinity_in_one_shard_skips_the_step_of_all_ranks) {
  run_ranks(3, [](Group group) {
    for (const int stage : {1, 2}) {
      Job job(group, stage, make_sgd);
      job.train(0, 1);
      const auto before = job.model().state_dict();
      std::vector<Array> copies;
      for (const auto& entry : before) copies.push_back(entry.array.clone());
      optim::GradScaler scaler({.init_scale = 4});
      scaler.set_agreement([&](bool is_finite) { return group->max(is_finite ? 0 : 1) == 0; });
      scaler.load_state_dict(scaler.state_dict());  // does not lose the agreement
      for (const bool is_finite : {false, true}) {
        job.zero().zero_grad();
        const Samples samples(0, 8);
        scaler.scale(nn::CrossEntropyLoss()(job.ddp()(samples.images), samples.labels)).backward();
        job.zero().step([&] {
          Array gradient = job.optimizer().parameters()[0].grad();
          if (!is_finite && group->rank() == 1) gradient.slice(0, 0, 1).fill(std::numeric_limits<double>::infinity());
          EXPECT_EQ(scaler.step(job.optimizer()), is_finite);
          scaler.update();
        });
        EXPECT_EQ(scaler.scale(), 2);
        if (is_finite) continue;
        for (std::size_t i = 0; i < before.size(); ++i) expect_same(copies[i], before[i].array, before[i].name);
      }
      EXPECT_NE(copies[0].to_vector<float>(), job.model().state_dict()[0].array.to_vector<float>());
    }
  });
}

TEST(ZeroRedundancy, its_state_goes_to_any_number_of_ranks_and_to_ddp) {
  std::vector<NamedArray> model, state;
  run_ranks(
      2,
      [&](Group group) {
        Job job(group, 1, make_adamw);
        job.train(0, 3);
        const auto whole = job.zero().state_dict(job.optimizer());
        if (group->rank() == 0) {
          state = whole;
          for (const auto& [name, array] : job.model().state_dict()) model.push_back({name, array.clone()});
        }
      },
      timeout, "shm");
  for (const int ranks : {2, 3}) {
    run_ranks(
        ranks,
        [&](Group group) {
          Job ddp(group, 0, make_adamw);
          ddp.model().load_state_dict(model);
          ddp.optimizer().load_state_dict(state);
          ddp.train(3, 6);
          for (const int stage : {1, 2}) {
            Job zero(group, stage, make_adamw);
            zero.model().load_state_dict(model);
            zero.zero().load_state_dict(zero.optimizer(), state);
            const auto again = zero.zero().state_dict(zero.optimizer());
            if (group->rank() == 0) expect_equal(state, again, 0);
            zero.train(3, 6);
            expect_equal(ddp.model().state_dict(), zero.model().state_dict(), 0);
          }
        },
        timeout, "shm");
  }
}

// ---- Memory and messages

nn::Sequential large_network(int layers = 2) {
  nn::Sequential network{nn::Flatten(), nn::Linear(64, 256)};
  for (int i = 0; i < layers; ++i) network.push_back(nn::Linear(256, 256));
  network.push_back(nn::Linear(256, 10));
  return network;
}

// The bytes of all ranks together, for each element of the parameters and rank.
struct Memory {
  double kept = 0;  // between two steps with Adam
  double peak = 0;  // during a step
};

// Each layer of the network is a bucket.
Memory memory_of(int ranks, int stage, bool is_frozen = false) {
  Memory memory;
  run_ranks(
      ranks,
      [&](Group group) {
        const auto synchronized = [&](bool resets = false) {
          group->barrier()->wait();
          const MemoryStats stats = memory_stats();
          group->barrier()->wait();
          if (resets && group->rank() == 0) reset_peak_memory();
          group->barrier()->wait();
          return stats;
        };
        const MemoryStats before = synchronized();
        auto model = large_network(24);
        if (is_frozen)
          for (auto& [name, tensor] : model.parameters())
            if (!name.starts_with("1.")) tensor.set_requires_grad(false);
        constexpr BucketSizes buckets{.first_bytes = 1 << 18, .bytes = 1 << 18};
        std::optional<ZeroRedundancy> zero;
        std::optional<DistributedDataParallel> ddp;
        if (stage > 0) zero.emplace(model, group, ZeroRedundancyOptions{.stage = stage, .buckets = buckets});
        else ddp.emplace(model, group, DistributedDataParallelOptions{.buckets = buckets});
        optim::Adam optimizer(model.parameters());
        if (zero) zero->use(optimizer);
        for (int step = 0; step < 3; ++step) {
          if (step == 2) synchronized(true);  // all memory is in use now
          const Samples samples(group->rank() * 4, 4);
          const Tensor scores = stage > 0 ? zero->ddp()(samples.images) : (*ddp)(samples.images);
          nn::CrossEntropyLoss()(scores, samples.labels).backward();
          zero ? zero->step() : optimizer.step();
          model.zero_grad();
        }
        double elements = 0;
        for (const auto& parameter : model.parameters()) elements += static_cast<double>(parameter.tensor.numel());
        const MemoryStats after = synchronized();
        const auto of_one = [&](std::uint64_t bytes) {
          return static_cast<double>(bytes - before.bytes_in_use) / elements / group->size();
        };
        if (group->rank() == 0) memory = {of_one(after.bytes_in_use), of_one(after.peak_bytes_in_use)};
      },
      timeout, "gloo");  // shared memory is not counted
  return memory;
}

// Blocks of memory are rounded up, by up to an eighth. docs/strategies.md has the measured numbers
// (--gtest_output=xml:FILE writes them).
TEST(ZeroRedundancy, keeps_as_many_bytes_as_the_formulas_say) {
  for (const int ranks : {2, 4}) {
    const double formulas[] = {16, 8 + 8.0 / ranks, 4 + 12.0 / ranks};
    for (const int stage : {0, 1, 2}) {
      const Memory memory = memory_of(ranks, stage);
      const std::string name = "stage_" + std::to_string(stage) + "_on_" + std::to_string(ranks);
      RecordProperty(name + "_kept", std::to_string(memory.kept));
      RecordProperty(name + "_peak", std::to_string(memory.peak));
      EXPECT_NEAR(memory.kept / formulas[stage], 1.04, 0.09);
      EXPECT_GT(memory.peak, memory.kept);
      EXPECT_LT(memory.peak, memory.kept + 2.5);  // some buckets, each of which is a 25th of the parameters
    }
  }
  // The optimizer's state for parameters that are not trained is divided too. They have no gradients.
  EXPECT_LT(memory_of(4, 1, true).kept, 8.5);
}

// Counts the bytes that a rank sends at least, and the operations.
class Counter : public ForwardingGroup {
 public:
  using ForwardingGroup::ForwardingGroup;
  std::shared_ptr<Work> start(Operation operation) override {
    using Kind = Operation::Kind;
    const double others = size() - 1,
                 bytes = operation.outputs.empty() ? 0.0 : static_cast<double>(operation.outputs[0].bytes());
    if (operation.kind == Kind::all_reduce) sent += 2 * others / size() * bytes;
    if (operation.kind == Kind::all_gather || operation.kind == Kind::reduce_scatter) sent += others * bytes;
    scatters += operation.kind == Kind::reduce_scatter;
    return ForwardingGroup::start(std::move(operation));
  }
  double sent = 0;
  int scatters = 0;
};

TEST(ZeroRedundancy, sends_as_much_as_all_reduce_while_backward_runs) {
  for (const int stage : {1, 2}) {
    run_ranks(2, [&](Group group) {
      const auto counter = std::make_shared<Counter>(group);
      auto model = large_network();
      int early = 0;
      // This hook comes first, before the one that counts the gradient as final.
      const auto handle = model.parameters()[0].tensor.on_grad_ready([&] { early = counter->scatters; });
      ZeroRedundancy zero(model, counter, {.stage = stage, .buckets = {.first_bytes = 1 << 14, .bytes = 1 << 16}});
      optim::SGD optimizer(model.parameters(), {.lr = 0.1});
      zero.use(optimizer);
      double bytes = 0;
      for (const auto& parameter : model.parameters()) bytes += static_cast<double>(parameter.tensor.value().bytes());
      for (int step = 0; step < 2; ++step) {
        counter->sent = counter->scatters = 0;
        zero.zero_grad();
        sum(zero.ddp()(Samples(0, 4).images)).backward();
        zero.step();
        EXPECT_GE(early, 2);  // the buckets of the last two layers
        EXPECT_GT(counter->scatters, early);
        const double expected = 2.0 / 2;  // 2 (W - 1) / W for W ranks
        EXPECT_NEAR(counter->sent / bytes, expected, step == 0 ? 0.1 : 0.01);
      }
    });
  }
}

// ---- Errors

TEST(ZeroRedundancy, refuses_what_it_cannot_divide) {
  nn::Sequential model{nn::Flatten(), nn::Linear(64, 16, {.bias = false})};
  ZeroRedundancy zero(model, local_group());
  Muon muon(model.parameters(), {});
  EXPECT_ERROR(zero.use(muon), "Muon computes with whole parameters");
  nn::Linear other(2, 2);
  optim::Adam foreign(other.parameters());
  EXPECT_ERROR(zero.use(foreign), "the model does not have the optimizer's parameter ");

  EXPECT_ERROR(zero.step(), "no optimizer is in use");
  optim::SGD sgd(model.parameters(), {.lr = 0.1});
  zero.use(sgd);
  EXPECT_ERROR(zero.use(sgd), "an optimizer in use already has the parameter 1.weight");
  optim::Adam second(model.parameters());
  EXPECT_ERROR(zero.use(second), "an optimizer in use already has the parameter 1.weight");
  EXPECT_ERROR(zero.step(), "no backward pass");
  const auto backward = [&] { sum(zero.ddp()(Samples(0, 2).images)).backward(); };
  {
    const auto local = zero.ddp().no_sync();
    backward();
  }
  EXPECT_ERROR(zero.step(), "no backward pass");
  backward();
  EXPECT_ERROR(backward(), "accumulate with ddp().no_sync()");
  zero.zero_grad();
  backward();
  EXPECT_ERROR(zero.step([] { throw Error("stopped"); }), "stopped");
  EXPECT_EQ(model.parameters()[0].tensor.shape(), Shape({16, 64}));
  zero.step();
  EXPECT_ERROR(zero.load_state_dict(sgd, {{"1.weight/momentum", ops::zeros({3})}}), "expected (16, 64)");
}

TEST(ZeroRedundancy, refuses_an_optimizer_with_state_and_unknown_options) {
  auto model = plain_network();
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  sum(model(Samples(0, 2).images)).backward();
  optimizer.step();
  model.zero_grad();
  ZeroRedundancy zero(model, local_group());
  EXPECT_ERROR(zero.use(optimizer), "has already made a step or loaded a state");
  auto another = plain_network();
  EXPECT_ERROR(ZeroRedundancy(another, local_group(), {.stage = 3}), "expected stage 1 or 2, got 3");
  EXPECT_ERROR(ZeroRedundancy(another, local_group(), {.stage = 2, .unused = Unused::skip}), "Unused::skip");
  EXPECT_ERROR(ZeroRedundancy(model, local_group(), {.stage = 2}), "belongs to a DistributedDataParallel");
  EXPECT_TRUE(model.parameters()[0].tensor.requires_grad());
}

TEST(ZeroRedundancy, refuses_to_step_in_join) {
  for (const int stage : {1, 2}) {
    run_ranks(2, [&](Group group) {
      Job job(group, stage, make_sgd);
      EXPECT_ERROR(join(job.ddp(), [&] { job.train(0, 1); }), "does not work in join()");
      job.train(0, 1);
    });
  }
}

TEST(ZeroRedundancy, names_a_parameter_without_gradient_and_goes_on) {
  for (const int stage : {1, 2}) {
    run_ranks(2, [&](Group group) {
      testing::Branches model;
      ZeroRedundancy zero(model, group, {.stage = stage});
      optim::SGD optimizer(model.parameters(), {.lr = 0.1});
      zero.use(optimizer);
      const auto backward = [&] { sum(zero.ddp()(ops::ones({1, 2}))).backward(); };
      model.both = group->rank() == 0;
      EXPECT_ERROR(backward(),
                   "rank 1: 2 of 4 parameters got no gradient in this backward pass: sometimes.weight, sometimes.bias");
      model.both = true;
      zero.zero_grad();
      backward();
      zero.step();
    });
  }
}

TEST(ZeroRedundancy, notices_a_parameter_that_is_trained_too_late) {
  auto model = plain_network();
  auto weight = model.parameters()[0].tensor;
  weight.set_requires_grad(false);
  ZeroRedundancy zero(model, local_group(), {.stage = 2});
  weight.set_requires_grad(true);
  EXPECT_ERROR(sum(zero.ddp()(Samples(0, 2).images)).backward(), "requires a gradient now, but did not when");
}

}  // namespace
}  // namespace tandem::distributed
