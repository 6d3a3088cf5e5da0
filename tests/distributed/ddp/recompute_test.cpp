// DistributedDataParallel with a model that recomputes some parts. Buckets and gradients are the same as without
// recomputing.
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/recompute.h>

#include <gtest/gtest.h>

#include <support/ranks.h>
#include "support/arrays.h"

namespace tandem::distributed {
namespace {

using testing::counting;
using testing::expect_same;
using testing::run_ranks;

// One layer is used inside and outside of a checkpoint, one only inside, and one not in every rank's passes.
struct Net : nn::Module {
  nn::Linear& shared = add("shared", nn::Linear(8, 8));
  nn::Linear& inside = add("inside", nn::Linear(8, 8));
  nn::Linear& sometimes = add("sometimes", nn::Linear(8, 8));
  bool checkpoints = false, uses_all = true;

  Tensor part(const Tensor& x) {
    const Tensor y = relu(inside(relu(shared(x))));
    return uses_all ? sometimes(y) : y;
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = shared(x);
    return shared(checkpoints ? nn::recompute([this](const Tensor& z) { return part(z); }, y) : part(y));
  }
};

std::vector<Array> gradients(bool checkpoints, Unused unused, const std::shared_ptr<ProcessGroup>& group) {
  manual_seed(4);
  Net net;
  net.checkpoints = checkpoints;
  net.uses_all = unused == Unused::error || group->rank() == 0;
  DistributedDataParallel ddp(net, group, {.buckets = {.first_bytes = 300, .bytes = 300}, .unused = unused});
  std::vector<Array> all;
  for (int step = 0; step < 3; ++step) {
    const Tensor x(ops::map(functors::Affine{0.02, -0.3 * (group->rank() + step)}, counting({4, 8})));
    sum(ddp(x)).backward();
    for (const auto& [name, tensor] : net.parameters()) all.push_back(tensor.grad().clone());
    if (step == 1) net.zero_grad();
  }
  return all;
}

TEST(RecomputeDdp, gives_the_same_gradients_to_the_bit) {
  for (const Unused unused : {Unused::error, Unused::zero, Unused::skip}) {
    run_ranks(2, [unused](const std::shared_ptr<ProcessGroup>& group) {
      const auto plain = gradients(false, unused, group), checked = gradients(true, unused, group);
      ASSERT_EQ(plain.size(), 18u);
      for (std::size_t i = 0; i < plain.size(); ++i) expect_same(plain[i], checked[i], "gradient " + std::to_string(i));
    });
  }
}

}  // namespace
}  // namespace tandem::distributed
