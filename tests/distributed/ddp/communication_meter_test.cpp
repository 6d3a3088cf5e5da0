#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/ddp/communication_meter.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/nn/loss.h>

#include <gtest/gtest.h>
#include <support/ranks.h>
#include <support/small_training.h>
#include <support/temporary_folder.h>

#include <chrono>
#include <thread>

namespace tandem::distributed {
namespace {

using testing::Group;
using testing::plain_network;
using testing::run_ranks;
using testing::Samples;

// Trains the same network on every rank for four steps. `hook` averages the gradients, or the usual all-reduce if it is
// null.
CommunicationReport report_of_training(const Group& group, const CommunicationHook& hook = nullptr) {
  auto model = plain_network();
  DistributedDataParallel ddp(model, group, {.buckets = {.first_bytes = 64, .bytes = 512}});
  ddp.set_communication_hook(hook);
  const auto meter = std::make_shared<CommunicationMeter>();
  ddp.observe(meter);
  const nn::CrossEntropyLoss criterion;
  for (int step = 0; step < 4; ++step) {
    const Samples samples(step * 8, 4);
    criterion(ddp(samples.images), samples.labels).backward();
  }
  return meter->report();
}

TEST(CommunicationMeter, says_how_long_gradients_travelled) {
  run_ranks(2, [](Group group) {
    const auto report = report_of_training(group);
    EXPECT_GE(report.steps, 3);  // the first step does not count if the buckets were rebuilt after it
    EXPECT_GT(report.compute, 0);
    EXPECT_GT(report.communication, 0);
    EXPECT_LE(report.exposed, report.communication);
    ASSERT_GT(report.buckets.size(), 1u);
    double communication = 0;
    std::size_t bytes = 0;
    for (const auto& bucket : report.buckets) {
      communication += bucket.communication;
      bytes += bucket.bytes;
      EXPECT_LE(bucket.exposed, bucket.communication);
    }
    EXPECT_NEAR(communication, report.communication, 1e-9);
    EXPECT_GE(bytes, 4u * (4 * 9 + 4 + 640 + 10));
    const auto text = report.to_string();
    for (const char* part : {"compute", "communication", "hidden", "bucket 1", "4.weight"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  });
}

// A reduction that the hook waits for is exposed completely. Other reductions may end after it.
TEST(CommunicationMeter, counts_what_a_hook_waits_for_as_exposed) {
  run_ranks(2, [](Group group) {
    const auto report =
        report_of_training(group, [](const GradBucket& bucket, ProcessGroup& g) -> std::shared_ptr<Work> {
          auto work = g.all_reduce(bucket.buffer, ReduceOp::mean);
          if (bucket.index == 0) return work;
          work->wait();
          return nullptr;
        });
    ASSERT_GT(report.buckets.size(), 1u);
    for (std::size_t i = 1; i < report.buckets.size(); ++i) {
      EXPECT_GT(report.buckets[i].communication, 0) << i;
      EXPECT_EQ(report.buckets[i].exposed, report.buckets[i].communication) << i;
    }
  });
}

// The reduction of bucket 0 ends while a hook waits for bucket 1. The meter notices the end only afterwards.
TEST(CommunicationMeter, counts_a_hook_that_outlasts_the_bucket_before) {
  struct Done : Work {
    bool is_done() const override { return true; }
    void wait() override {}
    void wait(std::chrono::milliseconds) override {}
    std::exception_ptr exception() const override { return nullptr; }
  };
  CommunicationMeter meter;
  ReducerObserver& observer = meter;
  const auto bucket = [](std::size_t index) {
    return GradBucket{"gradient bucket", index, index == 1, ops::zeros({4}), {}, {{"weight", Tensor(ops::zeros({4}))}}};
  };
  observer.buckets_made();
  observer.forward_begun();
  observer.backward_begun();
  observer.reduction_begun(bucket(0));
  observer.reduction_started(0, std::make_shared<Done>());
  observer.reduction_begun(bucket(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  observer.reduction_started(1, nullptr);
  observer.gradient_ready();
  observer.gradients_complete();
  observer.reduction_waited(0);
  observer.reduction_waited(1);
  observer.backward_ended();
  const auto report = meter.report();
  EXPECT_GE(report.buckets.at(1).communication, 0.002);
  EXPECT_EQ(report.buckets.at(1).exposed, report.buckets.at(1).communication);
}

TEST(CommunicationMeter, may_come_at_any_time_but_within_a_backward_pass) {
  run_ranks(2, [](Group group) {
    auto model = plain_network();
    DistributedDataParallel ddp(model, group, {.buckets = {.first_bytes = 64, .bytes = 512}});
    const auto meter = std::make_shared<CommunicationMeter>();
    EXPECT_EQ(meter->report().to_string(), "communication: no step since the buckets were made");
    EXPECT_ERROR(ddp.observe(nullptr), "not null");
    const nn::CrossEntropyLoss criterion;
    const auto step = [&] {
      const Samples samples(0, 4);
      criterion(ddp(samples.images), samples.labels).backward();
    };
    step();
    step();
    ddp.observe(meter);
    step();
    EXPECT_EQ(meter->report().steps, 1);
    EXPECT_GT(meter->report().buckets.size(), 1u);
    // The reducer's hooks were registered first, so the pass is already running when this hook is called.
    const auto handle = model.parameters()[0].tensor.on_grad_ready(
        [&] { EXPECT_ERROR(ddp.observe(meter), "between two backward passes"); });
    step();
    EXPECT_EQ(meter->report().steps, 2);
  });
}

}  // namespace
}  // namespace tandem::distributed
