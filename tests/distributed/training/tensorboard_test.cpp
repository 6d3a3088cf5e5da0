// Tests what TensorBoard itself reads from a training run whose metrics include tables.
#include <tandem/data/array_dataset.h>
#include <tandem/distributed/training/trainer.h>
#include <tandem/nn/loss.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>
#include <support/process.h>
#include <support/ranks.h>
#include <support/small_training.h>
#include <support/temporary_folder.h>
#include <support/torch_python.h>

namespace tandem::distributed {
namespace {

TEST(Trainer, TensorBoardShowsTablesAsText) {
  TANDEM_NEEDS_TENSORBOARD();
  const testing::TemporaryFolder folder;
  testing::run_ranks(1, [&](testing::Group group) {
    TrainingOptions options("tables", "");
    options.quiet = true;
    options.epochs = 2;
    options.batch_size = 5;
    options.log_dir = folder.path().string();
    const testing::Samples some(0, 10);
    const data::ArrayDataset samples(some.images, some.labels);
    auto model = testing::plain_network();
    Trainer trainer(options, group, model);
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    trainer.use(optimizer);
    data::Loader loader(samples, options.loader_options(*group));
    trainer.fit(
        loader, [&](const data::Batch& batch) { return cross_entropy(model(batch.inputs), batch.targets); },
        [&] {
          const std::vector<std::string> names = {"cat", "dog"};
          const auto pixels = static_cast<double>(trainer.steps());
          return std::vector<Metric>{{"classes", Table{names, {"IoU"}, {{0.5, 0.25}}}, Metric::Kind::fraction},
                                     {"confusion", Table{names, names, {{pixels, 1}, {2, 3}}}, Metric::Kind::number}};
        });
  });
  const std::string program = R"(
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util
events = EventAccumulator(sys.argv[1]).Reload()
def texts(tag):
    assert events.summary_metadata[tag].plugin_data.plugin_name == "text"
    return [(e.step, tensor_util.make_ndarray(e.tensor_proto)[0].decode()) for e in events.Tensors(tag)]
classes = "| | IoU |\n|---|---:|\n| cat | 50.00 % |\n| dog | 25.00 % |\n"
assert texts("epoch/classes") == [(2, classes), (4, classes)], texts("epoch/classes")
head = "| | cat | dog |\n|---|---:|---:|\n"
assert texts("epoch/confusion") == [(step, head + f"| cat | {step} | 2 |\n| dog | 1 | 3 |\n") for step in (2, 4)]
assert len(events.Scalars("epoch/total_loss")) == 2
)";
  const auto outcome =
      testing::run_process({"/usr/bin/env", testing::torch_python(), "-c", program, folder.path().string()});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
}

}  // namespace
}  // namespace tandem::distributed
