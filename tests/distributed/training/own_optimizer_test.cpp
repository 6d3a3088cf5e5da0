// Tests custom optimizers under DistributedDataParallel, with checkpoints.
#include <tandem/core/random/random.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/training/checkpoints/checkpoint.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/loss.h>
#include <tandem/nn/sequential.h>

#include <gtest/gtest.h>
#include <support/arrays.h>
#include <support/ranks.h>
#include <support/small_training.h>
#include <support/temporary_folder.h>

#include "../../../apps/examples/lion.h"
#include "../../../apps/examples/muon.h"

namespace tandem::distributed {
namespace {

constexpr std::int64_t batch = 8;  // of all ranks together

// Trains on one rank with the optimizer `Own`. The parameters are matrices, because Muon accepts nothing else.
template <class Own>
class Job {
 public:
  explicit Job(testing::Group group) : group_(std::move(group)) {}

  // Takes the steps from `begin` to `end - 1`.
  void train(int begin, int end) {
    const std::int64_t share = batch / group_->size();
    for (int step = begin; step < end; ++step) {
      const testing::Samples samples(step * batch + group_->rank() * share, share);
      optimizer_.zero_grad();
      nn::CrossEntropyLoss()(ddp_(samples.images), samples.labels).backward();
      optimizer_.step();
    }
  }
  void save(const std::filesystem::path& folder) {
    TrainingState state;
    state.program = "own";
    state.losses = {0};
    state.model = model_.state_dict();
    state.optimizer = optimizer_.state_dict();
    save_checkpoint(folder, state, 1);
  }
  void load(const std::filesystem::path& folder) {
    const auto path = find_checkpoint(folder, "own", [](const std::string& line) { ADD_FAILURE() << line; });
    const TrainingState state = read_checkpoint(path.value());
    model_.load_state_dict(state.model);
    optimizer_.load_state_dict(state.optimizer);
  }
  std::vector<NamedArray> parameters() const { return model_.state_dict(); }

 private:
  testing::Group group_;
  nn::Sequential model_ = [] {
    manual_seed(3);
    return nn::Sequential{nn::Flatten(), nn::Linear(64, 16, {.bias = false}), nn::ReLU(),
                          nn::Linear(16, 10, {.bias = false})};
  }();
  DistributedDataParallel ddp_{model_, group_};
  Own optimizer_{model_.parameters(), {.lr = 0.01}};
};

template <class Own>
struct OwnOptimizerOfSeveralRanks : ::testing::Test {};
using Both = ::testing::Types<Lion, Muon>;
TYPED_TEST_SUITE(OwnOptimizerOfSeveralRanks, Both, );

TYPED_TEST(OwnOptimizerOfSeveralRanks, ResumesWithTheSameBits) {
  const testing::TemporaryFolder folder;
  std::vector<NamedArray> alone;
  testing::run_ranks(1, [&](testing::Group group) {
    Job<TypeParam> job(group);
    job.train(0, 6);
    alone = job.parameters();
  });
  testing::run_ranks(2, [&](testing::Group group) {
    Job<TypeParam> through(group);
    through.train(0, 3);
    if (group->rank() == 0) through.save(folder.path());
    group->barrier()->wait();
    through.train(3, 6);

    Job<TypeParam> resumed(group);
    resumed.load(folder.path());
    resumed.train(3, 6);
    const auto expected = through.parameters(), found = resumed.parameters();
    ASSERT_EQ(found.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      testing::expect_same(expected[i].array, found[i].array, found[i].name);
      testing::expect_close(alone[i].array, found[i].array, 0.05, found[i].name + " beside that of one rank");
    }
  });
}

}  // namespace
}  // namespace tandem::distributed
