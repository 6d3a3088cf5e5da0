// The output and files of mnist_ddp, alone and through tandemrun.
#include <tandem/core/io/arrays_file.h>

#include <gtest/gtest.h>
#include <support/trace.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>
#include <set>

#include "support/mnist_ddp_fixture.h"

namespace tandem {
namespace {

using testing::expect_parts;
using testing::json_lines;
using testing::mnist_ddp;
using testing::MnistDdp;
using testing::read_bytes;
using testing::run_mnist_ddp;
using testing::total_losses;

TEST_F(MnistDdp, prints_one_loss_and_one_line_of_figures_per_epoch) {
  for (const int processes : {1, 2}) {
    const auto outcome = run_mnist_ddp(processes, with_data({"--epochs", "2", "--lr", "0.05"}));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_TRUE(std::regex_match(outcome.out, std::regex("(Total loss: [0-9.]+\nEpoch [12]/2: test accuracy "
                                                         "[0-9.]+ %, [0-9.]+ images/s, [0-9.]+ s\n){2}")))
        << outcome.out;
    expect_parts(outcome.err, {"mnist_ddp: " + std::to_string(processes) + " process", "0 loader workers",
                               "steps an epoch", "data: 330 training and 64 test images in " + path("data")});
    EXPECT_TRUE(run_mnist_ddp(processes, with_data({"--epochs", "1", "--quiet"})).out.empty());
  }
}

TEST_F(MnistDdp, writes_metrics) {
  for (int run_number = 0; run_number < 2; ++run_number) {
    const auto outcome =
        run_mnist_ddp(2, with_data({"--epochs", "2", "--metrics", path("metrics.json"), "--log-every", "1"}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto lines = json_lines(folder / "metrics.json");
    ASSERT_EQ(lines.size(), 6u * (run_number + 1));  // each run appends
    const auto losses = total_losses(outcome.out);
    double sum = 0;
    for (int i = 0; i < 6; ++i) {
      const auto& line = lines[6 * run_number + i];
      EXPECT_EQ(line["epoch"], i / 3);
      EXPECT_GT(line["images_per_second"], 0);
      if (i % 3 < 2) {
        EXPECT_EQ(line["kind"], "step");
        EXPECT_EQ(line["step"], i / 3 * 2 + i % 3 + 1);
        EXPECT_EQ(line["lr"], 1e-4);
        sum += 2 * line["loss"].get<double>();
      } else {
        EXPECT_EQ(line["kind"], "epoch");
        EXPECT_EQ(line["total_loss"], losses[i / 3]);
        EXPECT_NEAR(line["total_loss"], sum, 1e-4);
        EXPECT_EQ(line["world_size"], 2);
        EXPECT_EQ(line["batch_size"], 100);
        EXPECT_GT(line["epoch_seconds"], 0);
        EXPECT_GE(line["test_accuracy"], 0);
        EXPECT_LE(line["test_accuracy"], 1);
        sum = 0;
      }
    }
  }
}

TEST_F(MnistDdp, writes_event_files) {
  const auto outcome = run_mnist_ddp(
      2, with_data({"--epochs", "1", "--log-dir", path("logs"), "--log-every", "1", "--save", path("net.pth")}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path("logs"))) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1u);  // only rank 0 writes
  const auto events = read_bytes(files[0]);
  const auto count = [&](const std::string& tag) {
    std::size_t n = 0;
    for (auto at = events.find(tag); at != std::string::npos; at = events.find(tag, at + 1)) ++n;
    return n;
  };
  for (const char* tag : {"train/loss", "train/lr", "train/images_per_second"}) EXPECT_EQ(count(tag), 2u) << tag;
  for (const char* tag : {"epoch/total_loss", "epoch/images_per_second", "epoch/test_accuracy"})
    EXPECT_EQ(count(tag), 1u) << tag;
  EXPECT_EQ(load_arrays(path("net.pth")).size(), 16u);
}

TEST_F(MnistDdp, accuracy_counts_every_test_image_once) {
  // 64 images over 3 processes are 22, 21 and 21.
  ASSERT_EQ(run_mnist_ddp(1, with_data({"--epochs", "2", "--lr", "0.05", "--checkpoint", path("c")})).code, 0);
  std::vector<double> accuracies;
  for (const int processes : {1, 3}) {
    const auto outcome = run_mnist_ddp(processes, with_data({"--epochs", "0", "--checkpoint", path("c"), "--resume"}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    std::smatch match;
    ASSERT_TRUE(std::regex_search(outcome.out, match, std::regex("test accuracy ([0-9.]+) %"))) << outcome.out;
    accuracies.push_back(std::stod(match[1]));
  }
  EXPECT_EQ(accuracies[0], accuracies[1]);
  EXPECT_NEAR(std::fmod(accuracies[0] * 64 / 100 + 0.01, 1), 0.01, 0.01);
}

TEST_F(MnistDdp, profile_shows_what_each_thread_of_each_rank_did) {
  // With small buckets, the communication thread sends the first ones while backward continues.
  const auto outcome = run_mnist_ddp(
      2, with_data({"--epochs", "1", "--profile", path("trace.json"), "--workers", "1", "--bucket-cap-mb", "0.02"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const int rank : {0, 1}) {
    const auto trace = testing::read_trace(path("trace.rank" + std::to_string(rank) + ".json"));
    testing::expect_nested(trace);
    EXPECT_EQ(trace.process_name, "rank " + std::to_string(rank));
    EXPECT_EQ(trace.ranges.at(0).at("pid"), rank);
    const int steps = 2;  // of 100 and 65 images, on each rank
    const std::map<std::string, int> per_step = {
        {"backward", 1},        {"conv2d backward", 2},        {"batch_norm backward", 2},
        {"linear backward", 1}, {"cross_entropy backward", 1}, {"wait for gradients", 1},
        {"SGD::step", 1}};
    for (const auto& [name, times] : per_step) EXPECT_EQ(trace.count("compute", name), times * steps) << name;
    for (const char* name : {"forward", "layer1", "layer2", "fc", "conv2d", "batch_norm", "linear", "cross_entropy"})
      EXPECT_GE(trace.count("compute", name), steps) << name;
    EXPECT_EQ(trace.count("loader", "load batch"), steps);
    EXPECT_GT(trace.count("communication", "all_reduce"), 0);
    std::set<std::string> buckets;
    for (const auto& range : trace.ranges) {
      if (range.at("name") != "all_reduce") continue;
      EXPECT_GT(range.at("args").at("bytes"), 0);
      buckets.insert(range.at("args").at("name"));
    }
    EXPECT_EQ(buckets.count("gradient bucket 0"), 1u);
    EXPECT_EQ(buckets.count("gradient bucket 1"), 1u);
  }
}

TEST_F(MnistDdp, profile_says_where_the_time_of_some_steps_went) {
  const auto outcome = run_mnist_ddp(
      2, with_data({"--epochs", "2", "--profile", path("trace.json"), "--profile-steps", "2:3", "--batch-size", "50"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const int rank : {0, 1}) {
    const auto trace = testing::read_trace(path("trace.rank" + std::to_string(rank) + ".json"));
    EXPECT_EQ(trace.count("compute", "SGD::step"), 2);
    std::map<std::string, std::string> notes;  // from a convolution's ranges and the modules around it
    for (const auto& range : trace.ranges) {
      if (range.at("name") != "conv2d backward" && range.at("name") != "linear") continue;
      for (const auto& [key, value] : range.at("args").items()) notes[key] = value;
    }
    EXPECT_EQ(notes["module"], "layer1.0") << "of the last convolution on the way back";
    EXPECT_EQ(notes["gradient"], "(50, 16, 28, 28)");
    EXPECT_EQ(notes["inputs"], "(50, 1568), (10, 1568), (10)");
    EXPECT_EQ(notes["output"], "(50, 10)");
    for (const char* name : {"forward", "layer1", "layer1.0", "layer2.0", "fc"})
      EXPECT_EQ(trace.count("compute", name), 2) << name;
  }
  const auto begin = outcome.err.find("profile in " + path("trace.rank0.json") + ": 2 steps in ");
  ASSERT_NE(begin, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("profile in", begin + 1), std::string::npos) << "rank 0 alone";
  expect_parts(outcome.err, {" % waiting for data, ", " % for other ranks", "operation", "conv2d backward", " %"});
  const auto end = outcome.err.find("per step (mean of", begin);
  ASSERT_NE(end, std::string::npos) << outcome.err;
  const auto lines = std::count(outcome.err.begin() + static_cast<std::ptrdiff_t>(begin),
                                outcome.err.begin() + static_cast<std::ptrdiff_t>(end), '\n');
  EXPECT_GE(lines, 6);
  EXPECT_LE(lines, 12);
}

TEST_F(MnistDdp, trains_with_every_strategy) {
  const auto train = [&](int processes, std::vector<std::string> more) {
    more.insert(more.end(), {"--epochs", "2", "--lr", "0.02", "--save", path("net.safetensors")});
    const auto outcome = run_mnist_ddp(processes, with_data(more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    if (more[1] != "ddp") expect_parts(outcome.err, {"strategy " + more[1]});
    return std::pair{read_bytes(folder / "net.safetensors"), total_losses(outcome.out)};
  };
  const auto two = train(2, {"--strategy", "ddp"});
  EXPECT_EQ(train(2, {"--strategy", "ring"}), two);
  EXPECT_EQ(train(2, {"--strategy", "ps"}), two);
  EXPECT_EQ(train(2, {"--strategy", "zero1"}), two);
  EXPECT_EQ(train(2, {"--strategy", "zero2"}), two);
  for (const char* strategy : {"localsgd", "diloco"}) {
    const auto found = train(2, {"--strategy", strategy, "--inner-steps", "3"});
    EXPECT_NE(found.first, two.first);
    EXPECT_NEAR(found.second.back() / two.second.back(), 1, 0.5) << strategy;
  }
  const auto one = train(1, {"--strategy", "ddp"});
  EXPECT_EQ(train(1, {"--strategy", "dp", "--threads", "1"}), one);
  const auto replicas = train(1, {"--strategy", "dp", "--threads", "2"});
  EXPECT_NE(replicas.first, one.first);  // each batch norm used only its own half
  EXPECT_NEAR(replicas.second.back() / one.second.back(), 1, 0.1);

  const auto refused = run_mnist_ddp(2, with_data({"--strategy", "dp"}));
  EXPECT_EQ(refused.code, 2);
  expect_parts(refused.err, {"--strategy dp runs its threads in a single process, but this job has 2 processes"});
}

TEST_F(MnistDdp, finds_a_learning_rate) {
  const auto outcome = run_mnist_ddp(2, with_data({"--find-lr", path("lr.svg"), "--momentum", "0.9"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::smatch match;
  ASSERT_TRUE(std::regex_match(outcome.out, match, std::regex("Suggested learning rate: ([0-9.e-]+)\n")))
      << outcome.out;
  EXPECT_GT(std::stod(match[1]), 1e-5);
  EXPECT_LT(std::stod(match[1]), 1);
  expect_parts(outcome.err, {"tried ", " learning rates from 1e-07 to ", "; the plot is in " + path("lr.svg")});
  EXPECT_TRUE(read_bytes(folder / "lr.svg").starts_with("<svg"));
  const auto refused = run_mnist_ddp(1, with_data({"--find-lr", path("no/lr.svg")}));
  EXPECT_EQ(refused.code, 1);
  expect_parts(refused.err, {"no/lr.svg"});
}

TEST_F(MnistDdp, stops_at_max_steps) {
  const auto outcome =
      run_mnist_ddp(1, with_data({"--epochs", "9", "--max-steps", "6", "--metrics", path("m"), "--log-every", "1"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(total_losses(outcome.out).size(), 2u);
  EXPECT_EQ(json_lines(folder / "m")[6]["step"], 6);
}

TEST_F(MnistDdp, meets_at_a_tcp_address_without_a_launcher) {
  const std::string common =
      mnist_ddp + " --data " + path("data") + " --epochs 1 --timeout 20 --init-method tcp://127.0.0.1:$PORT";
  const std::string script = "PORT=$((20000 + $$ % 10000)); RANK=1 WORLD_SIZE=2 " + common + " & RANK=0 WORLD_SIZE=2 " +
                             common + "; code=$?; wait $! && exit $code";
  const auto outcome = testing::run_process({"sh", "-c", script}, {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(total_losses(outcome.out).size(), 1u);
}

// With a learning rate of 0, the losses of the batches are the same with and without accumulation.
TEST_F(MnistDdp, accumulates_and_compresses) {
  for (const int processes : {1, 2}) {
    const auto losses = [&](const std::string& accumulate) {
      const auto file = path("metrics" + std::to_string(processes) + "-" + accumulate);
      const auto outcome =
          run_mnist_ddp(processes, with_data({"--epochs", "1", "--lr", "0", "--accumulate", accumulate, "--unused",
                                              "skip", "--compress", "bf16", "--metrics", file, "--log-every", "1"}));
      EXPECT_EQ(outcome.code, 0) << outcome.err;
      if (processes == 2 && accumulate == "3") expect_parts(outcome.err, {"communication: no step"});
      std::vector<double> found;
      for (const auto& line : json_lines(file))
        if (line["kind"] == "step") found.push_back(line["loss"]);
      return found;
    };
    const auto of_batches = losses("1"), of_steps = losses("3");
    // Batches of 100, 100, 100 and 30 are two steps: one over three batches, and one over the last. On two processes,
    // 100 and 65 are one step. The loss of a step is the mean over its samples.
    if (processes == 1) {
      ASSERT_EQ(of_batches.size(), 4u);
      ASSERT_EQ(of_steps.size(), 2u);
      EXPECT_NEAR(of_steps[0], (of_batches[0] + of_batches[1] + of_batches[2]) / 3, 1e-6);
      EXPECT_NEAR(of_steps[1], of_batches[3], 1e-6);
    } else {
      ASSERT_EQ(of_batches.size(), 2u);
      ASSERT_EQ(of_steps.size(), 1u);
      EXPECT_NEAR(of_steps[0], (100 * of_batches[0] + 65 * of_batches[1]) / 165, 1e-6);
    }
  }
}

}  // namespace
}  // namespace tandem
