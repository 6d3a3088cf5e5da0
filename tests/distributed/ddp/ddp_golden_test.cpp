// Compares DistributedDataParallel with PyTorch's: tests/golden/ddp.safetensors.
#include <tandem/autograd/functions.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/ddp/join.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/loss.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>
#include <support/arrays.h>
#include <support/golden.h>
#include <support/ranks.h>

namespace tandem::distributed {
namespace {

using testing::Golden;
using testing::Group;
using testing::run_ranks;

// The same model as in make_golden.py.
struct Branches : nn::Module {
  nn::Linear& first = add("first", nn::Linear(6, 8));
  nn::Linear& shared = add("shared", nn::Linear(8, 8));
  nn::Linear& sometimes = add("sometimes", nn::Linear(8, 8));
  nn::Linear& never = add("never", nn::Linear(3, 3));
  nn::Linear& head = add("head", nn::Linear(8, 4));
  bool with_branch = true;

  Tensor forward(const Tensor& input) override {
    Tensor x = tanh(shared(tanh(first(input))));
    if (with_branch) x = x + tanh(sometimes(x));
    return head(tanh(shared(x)));
  }
};

bool has_branch(std::int64_t step, int rank) { return step % 3 != 2 && (step + rank) % 2 == 0; }

class DdpAgainstPyTorch : public ::testing::Test {
 protected:
  // Compares the training of each rank. `loop` runs the steps, and calls a StepLoss for the loss of each step.
  using StepLoss = std::function<Tensor(std::int64_t step)>;
  using Loop = std::function<void(DistributedDataParallel&, optim::SGD&, int rank, const StepLoss&)>;

  void compare(const std::string& name, const Loop& loop) const {
    for (const int world : {2, 3, 4}) {
      const std::string prefix = name + "_world" + std::to_string(world) + "/";
      run_ranks(world, [&](Group group) {
        const int rank = group->rank();
        Branches model;
        std::vector<NamedArray> initial;
        for (const auto& [parameter, tensor] : model.parameters()) {
          initial.push_back({parameter, golden["initial/" + parameter]});
        }
        if (rank == 0) model.load_state_dict(initial);
        DistributedDataParallel ddp(model, group,
                                    {.buckets = {.first_bytes = 100, .bytes = 300}, .unused = Unused::skip});
        optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01});
        const nn::CrossEntropyLoss criterion;
        std::vector<double> losses;
        const StepLoss step_loss = [&](std::int64_t step) {
          model.with_branch = has_branch(step, rank) || (name.find("join") == 0 && rank == world - 1);
          const Array input = golden["inputs"].select(0, rank).select(0, step).contiguous();
          const Array labels = golden["labels"].select(0, rank).select(0, step).contiguous();
          const Tensor loss = criterion(ddp(input), labels);
          losses.push_back(loss.item());
          return loss;
        };
        loop(ddp, optimizer, rank, step_loss);
        const auto expected = golden[prefix + "losses" + std::to_string(rank)].to_vector<double>();
        ASSERT_EQ(losses.size(), expected.size());
        for (std::size_t i = 0; i < losses.size(); ++i) {
          EXPECT_NEAR(losses[i], expected[i], 2e-6) << prefix << " rank " << rank << ", loss " << i;
        }
        for (const auto& [parameter, tensor] : model.parameters()) {
          testing::expect_close(golden[prefix + parameter], tensor.value(), 3e-6, prefix + parameter);
        }
        // A parameter that no rank used has not changed, not even by weight decay.
        testing::expect_same(golden["initial/never.weight"], model.never.weight.value(), "never.weight");
      });
    }
  }

  const Golden golden{"ddp.safetensors"};
};

TEST_F(DdpAgainstPyTorch, unused_and_shared_parameters) {
  compare("unused", [](auto&, optim::SGD& optimizer, int, const StepLoss& step_loss) {
    for (int step = 0; step < 12; ++step) {
      optimizer.zero_grad();
      step_loss(step).backward();
      optimizer.step();
    }
  });
}

TEST_F(DdpAgainstPyTorch, accumulation_of_4) {
  compare("accumulate", [](DistributedDataParallel& ddp, optim::SGD& optimizer, int, const StepLoss& step_loss) {
    for (int step = 0; step < 12; ++step) {
      const bool is_last = step % 4 == 3;
      if (step % 4 == 0) optimizer.zero_grad();
      {
        const auto local = ddp.no_sync(!is_last);
        (step_loss(step) / 4).backward();
      }
      if (is_last) optimizer.step();
    }
  });
}

TEST_F(DdpAgainstPyTorch, uneven_inputs) {
  for (const bool by_initial : {true, false}) {
    compare(by_initial ? "join_initial" : "join_active",
            [&](DistributedDataParallel& ddp, optim::SGD& optimizer, int rank, const StepLoss& step_loss) {
              join(ddp,
                   [&] {
                     for (int step = 0; step < 3 * (rank + 1); ++step) {
                       optimizer.zero_grad();
                       step_loss(step).backward();
                       optimizer.step();
                     }
                   },
                   {.divide_by_initial_world_size = by_initial});
            });
  }
}

}  // namespace
}  // namespace tandem::distributed
