// Runs the built mnist_ddp, alone and through tandemrun.
#include <tandem/core/io/arrays_file.h>
#include <tandem/core/io/safetensors.h>
#include <tandem/data/idx.h>

#include <gtest/gtest.h>
#include <support/golden.h>
#include <support/process.h>
#include <support/temporary_folder.h>
#include <support/trace.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

#include "../data/idx_files.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::expect_parts;
using testing::Outcome;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;

const std::string mnist_ddp = TANDEM_PROGRAM_DIR "/mnist_ddp";
const std::string tandemrun = TANDEM_PROGRAM_DIR "/tandemrun";

// The first images of the bundled sample, in files of their own.
void write_subset(const fs::path& folder, std::int64_t train, std::int64_t test) {
  const fs::path sample = TANDEM_SOURCE_DIR "/data/sample";
  const auto write = [&](const std::string& name, std::int64_t count) {
    const Array all = data::read_idx(sample / (name + ".gz"));
    const Array first = all.slice(0, 0, count).contiguous();
    std::vector<std::uint32_t> dims(first.shape().begin(), first.shape().end());
    write_bytes(folder / name,
                testing::idx_bytes(dims, {static_cast<const char*>(first.raw()), first.bytes()}));
  };
  write("train-images-idx3-ubyte", train);
  write("train-labels-idx1-ubyte", train);
  write("t10k-images-idx3-ubyte", test);
  write("t10k-labels-idx1-ubyte", test);
}

Outcome run(int processes, const std::vector<std::string>& arguments,
            const std::map<std::string, std::string>& variables = {}) {
  std::vector<std::string> command;
  if (processes > 1) command = {tandemrun, "--nproc-per-node", std::to_string(processes)};
  command.push_back(mnist_ddp);
  command.insert(command.end(), arguments.begin(), arguments.end());
  auto all = variables;
  all.emplace("OMP_NUM_THREADS", "1");
  return testing::run_process(command, all);
}

// The numbers behind "Total loss: ".
std::vector<double> total_losses(const std::string& out) {
  std::vector<double> losses;
  std::istringstream lines(out);
  const std::string mark = "Total loss: ";
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, mark.size(), mark) == 0) losses.push_back(std::stod(line.substr(mark.size())));
  }
  return losses;
}

std::vector<json> json_lines(const fs::path& path) {
  std::vector<json> result;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) result.push_back(json::parse(line));
  return result;
}

class MnistDdp : public ::testing::Test {
 protected:
  // 330 images: batches of 100, 100, 100 and 30 on one process; 100 and 65 on each of two.
  void SetUp() override {
    fs::create_directory(folder / "data");
    write_subset(folder / "data", 330, 64);
  }
  std::vector<std::string> with_data(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--data", (folder / "data").string()});
    return arguments;
  }
  std::string path(const std::string& name) const { return (folder / name).string(); }

  TemporaryFolder folder;
};

// The program in the README, line by line.
TEST(MnistDdpReadme, shows_the_program_as_it_is) {
  const auto lines_of = [](const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
      const auto first = line.find_first_not_of(' ');
      if (first != std::string::npos) lines.push_back(line.substr(first));
    }
    return lines;
  };
  const std::string readme = read_bytes(TANDEM_SOURCE_DIR "/README.md");
  const auto begin = readme.find("```cpp\nstruct Net"), end = readme.find("```", begin + 3);
  ASSERT_NE(begin, std::string::npos);
  const auto program = lines_of(read_bytes(TANDEM_SOURCE_DIR "/apps/mnist_ddp.cpp"));
  auto at = program.begin();
  for (const auto& line : lines_of(readme.substr(begin + 7, end - begin - 7))) {
    at = std::find(at, program.end(), line);
    ASSERT_NE(at, program.end()) << "not in mnist_ddp.cpp, or not in this order: " << line;
  }
}

TEST(MnistDdpAgainstPyTorch, total_losses_and_final_weights_are_the_same) {
  std::ifstream file(TANDEM_SOURCE_DIR "/tests/golden/training.json");
  const auto golden = json::parse(file);
  const testing::Golden states("training.safetensors");
  const TemporaryFolder folder;
  write_subset(folder.path(), 5003, 100);
  ASSERT_GE(golden["subset"].size(), 6u);
  for (const auto& expected : golden["subset"]) {
    ASSERT_EQ(expected["images"], 5003);
    const int world = expected["world_size"];
    const std::string seed = std::to_string(expected["seed"].get<int>());
    const auto outcome = run(world, {"--data", folder.path().string(), "--seed", seed, "--epochs",
                                     std::to_string(expected["epochs"].get<int>()), "--save",
                                     (folder / "net.safetensors").string()});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto losses = total_losses(outcome.out);
    const auto expected_losses = expected["total_losses"].get<std::vector<double>>();
    ASSERT_EQ(losses.size(), expected_losses.size()) << outcome.out;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i] / expected_losses[i], 1, 1e-5)
          << "seed " << seed << ", " << world << " processes, epoch " << i;
    }
    std::size_t compared = 0;
    for (const auto& [name, array] : read_safetensors(folder / "net.safetensors").arrays) {
      const auto found = array.to_vector<double>();
      const auto want =
          states["seed" + seed + "_world" + std::to_string(world) + "/" + name].to_vector<double>();
      ASSERT_EQ(found.size(), want.size()) << name;
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], want[i], 1e-4) << name << " element " << i;
      ++compared;
    }
    EXPECT_EQ(compared, 16u);
  }
}

// Also at lr 0.02 with momentum 0.9, where rounding alone soon moves a loss by a thousandth.
TEST(MnistDdpAgainstPyTorch, the_losses_of_the_first_steps_are_the_same) {
  std::ifstream file(TANDEM_SOURCE_DIR "/tests/golden/training.json");
  const auto golden = json::parse(file);
  const TemporaryFolder folder;
  ASSERT_GE(golden["first_steps"].size(), 6u);
  int index = 0;
  for (const auto& expected : golden["first_steps"]) {
    const auto metrics = folder / ("metrics" + std::to_string(index++));
    const int world = expected["world_size"], steps = expected["max_steps"];
    const auto text = [&](const char* key) { return expected[key].dump(); };
    const auto outcome =
        run(world, {"--data", TANDEM_SOURCE_DIR "/data/sample", "--seed", text("seed"), "--lr", text("lr"),
                    "--momentum", text("momentum"), "--epochs", "1", "--max-steps", text("max_steps"),
                    "--log-every", "1", "--metrics", metrics.string()});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const double tolerance = expected["momentum"].get<double>() > 0 ? 1e-3 : 1e-5;
    int compared = 0;
    for (const auto& line : json_lines(metrics)) {
      if (line["kind"] != "step") continue;
      double mean = 0;
      for (const auto& rank : expected["step_losses"]) mean += rank[compared].get<double>() / world;
      EXPECT_NEAR(line["loss"].get<double>() / mean, 1, tolerance)
          << "lr " << text("lr") << ", " << world << " processes, step " << compared;
      ++compared;
    }
    EXPECT_EQ(compared, steps);
  }
}

TEST_F(MnistDdp, prints_one_loss_and_one_line_of_figures_per_epoch) {
  for (const int processes : {1, 2}) {
    const auto outcome = run(processes, with_data({"--epochs", "2", "--lr", "0.05"}));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_TRUE(std::regex_match(
        outcome.out,
        std::regex(
            "(Total loss: [0-9.]+\nEpoch [12]/2: test accuracy [0-9.]+ %, [0-9]+ images/s, [0-9.]+ s\n){2}")))
        << outcome.out;
    expect_parts(outcome.err, {"mnist_ddp: " + std::to_string(processes) + " process", "0 loader workers",
                               "steps an epoch"});
    EXPECT_TRUE(run(processes, with_data({"--epochs", "1", "--quiet"})).out.empty());
  }
}

TEST_F(MnistDdp, writes_metrics) {
  for (int run_number = 0; run_number < 2; ++run_number) {
    const auto outcome =
        run(2, with_data({"--epochs", "2", "--metrics", path("metrics.json"), "--log-every", "1"}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto lines = json_lines(folder / "metrics.json");
    ASSERT_EQ(lines.size(), 6u * (run_number + 1));  // appended
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
  const auto outcome = run(2, with_data({"--epochs", "1", "--log-dir", path("logs"), "--log-every", "1",
                                         "--save", path("net.pth")}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path("logs"))) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1u);  // of rank 0 alone
  const auto events = read_bytes(files[0]);
  const auto count = [&](const std::string& tag) {
    std::size_t n = 0;
    for (auto at = events.find(tag); at != std::string::npos; at = events.find(tag, at + 1)) ++n;
    return n;
  };
  for (const char* tag : {"train/loss", "train/lr", "train/images_per_second"})
    EXPECT_EQ(count(tag), 2u) << tag;
  for (const char* tag : {"epoch/total_loss", "epoch/images_per_second", "epoch/test_accuracy"})
    EXPECT_EQ(count(tag), 1u) << tag;
  EXPECT_EQ(load_arrays(path("net.pth")).size(), 16u);
}

TEST_F(MnistDdp, accuracy_counts_every_test_image_once) {
  // 64 images over 3 processes: 22, 21 and 21.
  ASSERT_EQ(run(1, with_data({"--epochs", "2", "--lr", "0.05", "--checkpoint", path("c")})).code, 0);
  std::vector<double> accuracies;
  for (const int processes : {1, 3}) {
    const auto outcome = run(processes, with_data({"--epochs", "0", "--checkpoint", path("c"), "--resume"}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    std::smatch match;
    ASSERT_TRUE(std::regex_search(outcome.out, match, std::regex("test accuracy ([0-9.]+) %")))
        << outcome.out;
    accuracies.push_back(std::stod(match[1]));
  }
  EXPECT_EQ(accuracies[0], accuracies[1]);
  EXPECT_NEAR(std::fmod(accuracies[0] * 64 / 100 + 0.01, 1), 0.01, 0.01);
}

TEST_F(MnistDdp, trains_in_bf16_close_to_f32) {
  const auto f32 = run(2, with_data({"--epochs", "2"})),
             bf16 = run(2, with_data({"--epochs", "2", "--dtype", "bf16"}));
  ASSERT_EQ(bf16.code, 0) << bf16.err;
  const auto expected = total_losses(f32.out), found = total_losses(bf16.out);
  ASSERT_EQ(found.size(), 2u);
  for (int i = 0; i < 2; ++i) EXPECT_NEAR(found[i] / expected[i], 1, 5e-3);
  EXPECT_NE(found, expected);
}

// Few images: most CPUs compute f16 convolutions slowly.
TEST_F(MnistDdp, trains_in_f16_close_to_f32) {
  const auto f32 = run(2, with_data({"--epochs", "1"})),
             f16 = run(2, with_data({"--epochs", "1", "--dtype", "f16"}));
  ASSERT_EQ(f16.code, 0) << f16.err;
  const auto expected = total_losses(f32.out), found = total_losses(f16.out);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NEAR(found[0] / expected[0], 1, 1e-3);
  EXPECT_NE(found, expected);
}

// The first steps overflow, as the first scale is a large one: a run that began with that scale again would skip others.
TEST_F(MnistDdp, resumes_in_f16_with_its_loss_scale) {
  const auto train = [&](std::vector<std::string> more) {
    const std::vector<std::string> common = {"--epochs",   "1",   "--lr",    "0.05",
                                             "--momentum", "0.9", "--dtype", "f16"};
    more.insert(more.end(), common.begin(), common.end());
    const auto outcome = run(1, with_data(more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  };
  train({"--save", path("through.safetensors")});
  train({"--checkpoint", path("c"), "--max-steps", "2"});
  double scale = 0;
  for (const auto& [name, array] :
       read_safetensors(path("c") + "/checkpoint-0000-00000002.safetensors").arrays)
    if (name == "optimizer/grad_scaler/scale") scale = array.item();
  EXPECT_GT(scale, 0);
  EXPECT_LT(scale, 65536);
  train({"--checkpoint", path("c"), "--resume", "--save", path("resumed.safetensors")});
  EXPECT_TRUE(read_bytes(folder / "resumed.safetensors") == read_bytes(folder / "through.safetensors"));
}

TEST_F(MnistDdp, profile_shows_what_each_thread_of_each_rank_did) {
  // Small buckets: the communication thread takes the first ones while backward goes on.
  const auto outcome = run(2, with_data({"--epochs", "1", "--profile", path("trace.json"), "--workers", "1",
                                         "--bucket-cap-mb", "0.02"}));
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
    for (const char* name :
         {"forward", "layer1", "layer2", "fc", "conv2d", "batch_norm", "linear", "cross_entropy"})
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

TEST_F(MnistDdp, stops_at_max_steps) {
  const auto outcome =
      run(1, with_data({"--epochs", "9", "--max-steps", "6", "--metrics", path("m"), "--log-every", "1"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(total_losses(outcome.out).size(), 2u);
  EXPECT_EQ(json_lines(folder / "m")[6]["step"], 6);
}

// A job that is stopped and resumed, in the middle of an epoch or between two, ends with the bits of one that ran through.
TEST_F(MnistDdp, resumes_to_the_bit) {
  for (const int processes : {1, 2}) {
    const std::string id = std::to_string(processes);
    const auto train = [&](std::vector<std::string> more) {
      const std::vector<std::string> common = {"--epochs",   "4",   "--lr",           "0.05",
                                               "--momentum", "0.9", "--weight-decay", "0.01"};
      more.insert(more.end(), common.begin(), common.end());
      const auto outcome = run(processes, with_data(more));
      EXPECT_EQ(outcome.code, 0) << outcome.err;
      return outcome;
    };
    const auto through = train({"--save", path("through.safetensors")});
    const auto expected_losses = total_losses(through.out);
    ASSERT_EQ(expected_losses.size(), 4u);
    for (const int stop : {1, 3, 4}) {  // steps; an epoch has 4 on one process, 2 on two
      const auto folder_name = path("c" + id + "-" + std::to_string(stop));
      train({"--checkpoint", folder_name, "--max-steps", std::to_string(stop)});
      const auto rest =
          train({"--checkpoint", folder_name, "--resume", "--save", path("resumed.safetensors")});
      expect_parts(rest.err, {"resumed from", std::to_string(stop) + " step"});
      EXPECT_TRUE(read_bytes(folder / "resumed.safetensors") == read_bytes(folder / "through.safetensors"))
          << processes << " processes, stopped after " << stop;
      const auto losses = total_losses(rest.out);
      EXPECT_EQ(losses, std::vector<double>(expected_losses.end() - static_cast<long>(losses.size()),
                                            expected_losses.end()));
    }
  }
}

TEST_F(MnistDdp, keeps_checkpoints_as_told) {
  ASSERT_EQ(run(1, with_data({"--epochs", "5", "--checkpoint", path("a"), "--keep-last", "2"})).code, 0);
  const auto names = [&](const std::string& name) {
    std::vector<std::string> result;
    for (const auto& entry : fs::directory_iterator(folder / name)) result.push_back(entry.path().filename());
    std::sort(result.begin(), result.end());
    return result;
  };
  EXPECT_EQ(names("a"), (std::vector<std::string>{"checkpoint-0004-00000016.safetensors",
                                                  "checkpoint-0005-00000020.safetensors"}));
  ASSERT_EQ(run(1, with_data({"--epochs", "3", "--checkpoint", path("b"), "--save-every", "2"})).code, 0);
  EXPECT_EQ(names("b"), (std::vector<std::string>{"checkpoint-0002-00000008.safetensors",
                                                  "checkpoint-0003-00000012.safetensors"}));
  ASSERT_EQ(run(2, with_data({"--epochs", "2", "--checkpoint", path("c"), "--save-every-steps", "3",
                              "--keep-last", "9"}))
                .code,
            0);
  EXPECT_EQ(names("c"), (std::vector<std::string>{"checkpoint-0001-00000002.safetensors",
                                                  "checkpoint-0001-00000003.safetensors",
                                                  "checkpoint-0002-00000004.safetensors"}));
}

TEST_F(MnistDdp, resume_says_what_it_found) {
  const auto fresh = run(1, with_data({"--epochs", "1", "--checkpoint", path("c"), "--resume"}));
  EXPECT_EQ(fresh.code, 0);
  expect_parts(fresh.err, {"no checkpoint in", "starting afresh"});

  // The newest damaged: the one before it.
  ASSERT_EQ(run(1, with_data({"--epochs", "2", "--checkpoint", path("c"), "--resume"})).code, 0);
  write_bytes(folder / "c/checkpoint-0002-00000008.safetensors", "x");
  const auto second = run(2, with_data({"--epochs", "2", "--checkpoint", path("c"), "--resume"}));
  EXPECT_EQ(second.code, 0) << second.err;
  expect_parts(second.err, {"warning: the checkpoint", "checkpoint-0002-00000008.safetensors is damaged",
                            "resumed from " + path("c/checkpoint-0001-00000004.safetensors"),
                            "number of processes of 1, going on with 2"});

  // In the middle of an epoch nothing may change.
  ASSERT_EQ(run(1, with_data({"--epochs", "2", "--checkpoint", path("m"), "--max-steps", "1"})).code, 0);
  for (const auto& [more, part] :
       {std::pair<std::vector<std::string>, std::string>{{"--seed", "1"}, "--seed of 0, this is 1"},
        {{"--batch-size", "50"}, "--batch-size of 100, this is 50"}}) {
    auto arguments = with_data({"--epochs", "2", "--checkpoint", path("m"), "--resume"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto outcome = run(1, arguments);
    EXPECT_EQ(outcome.code, 1);
    expect_parts(outcome.err, {"in the middle of an epoch", part});
  }
}

TEST_F(MnistDdp, a_checkpoint_of_another_model_or_program_is_an_error) {
  fs::create_directory(folder / "c");
  const auto file = folder / "c/checkpoint-0001-00000004.safetensors";
  std::map<std::string, std::string> metadata{
      {"format", "1"},      {"program", "mnist_ddp"}, {"epoch", "1"},
      {"step", "4"},        {"position", "0"},        {"seed", "0"},
      {"world_size", "1"},  {"batch_size", "1"},      {"generator", "?"},
      {"losses", "0x0p+0"}, {"samples", "330"}};
  write_safetensors(
      file, std::vector<NamedArray>{{"model/other.weight", Array::from<float>(std::vector<float>{1}, {1})}},
      metadata);
  for (const int processes : {1, 2}) {
    const auto outcome = run(processes, with_data({"--checkpoint", path("c"), "--resume"}));
    EXPECT_EQ(outcome.code, 1);
    expect_parts(outcome.err, {"does not fit this program", "other.weight"});
  }
  metadata["program"] = "voc_ddp";
  write_safetensors(file, std::vector<NamedArray>{}, metadata);
  expect_parts(run(1, with_data({"--checkpoint", path("c"), "--resume"})).err, {"was written by voc_ddp"});
  write_bytes(file, "damaged");
  expect_parts(run(1, with_data({"--checkpoint", path("c"), "--resume"})).err,
               {"none of the 1 checkpoints", "remove them"});
}

TEST_F(MnistDdp, a_fresh_run_spares_the_checkpoints_of_an_earlier_one) {
  EXPECT_EQ(run(1, with_data({"--checkpoint", path("c"), "--epochs", "2"})).code, 0);
  const auto before = fs::file_size(folder / "c/checkpoint-0002-00000008.safetensors");
  for (const int processes : {1, 2}) {
    const auto outcome = run(processes, with_data({"--checkpoint", path("c"), "--epochs", "1"}));
    EXPECT_EQ(outcome.code, 1);
    expect_parts(outcome.err, {"holds the checkpoints of an earlier run", "--resume"});
  }
  EXPECT_EQ(fs::file_size(folder / "c/checkpoint-0002-00000008.safetensors"), before);
}

TEST_F(MnistDdp, another_number_of_images_is_noticed_on_resume) {
  const auto resumed = [&](const std::string& data, const std::string& checkpoints) {
    return run(1, {"--data", path(data), "--checkpoint", path(checkpoints), "--epochs", "2", "--resume"});
  };
  fs::create_directory(folder / "few");
  write_subset(folder / "few", 110, 64);
  EXPECT_EQ(run(1, with_data({"--checkpoint", path("middle"), "--max-steps", "3"})).code, 0);
  const auto in_the_middle = resumed("few", "middle");
  EXPECT_EQ(in_the_middle.code, 1);
  expect_parts(in_the_middle.err, {"number of samples a process and epoch of 330", "this is 110"});

  EXPECT_EQ(run(1, with_data({"--checkpoint", path("end"), "--epochs", "1"})).code, 0);
  const auto at_the_end = resumed("few", "end");
  EXPECT_EQ(at_the_end.code, 0) << at_the_end.err;
  expect_parts(at_the_end.err, {"number of samples a process and epoch of 330, going on with 110"});
}

// What each wrong input is called; none may hang, and every process ends.
TEST_F(MnistDdp, bad_data_ends_every_process_with_one_clear_message) {
  const auto images = read_bytes(folder / "data/train-images-idx3-ubyte");
  const auto labels = read_bytes(folder / "data/train-labels-idx1-ubyte");
  auto bad_label = labels;
  bad_label[100] = 11;
  const struct {
    std::string file, bytes, part;
  } cases[] = {
      {"train-images-idx3-ubyte", images.substr(0, 5000), "train-images-idx3-ubyte"},
      {"train-images-idx3-ubyte", images + "more", "train-images-idx3-ubyte"},
      {"train-images-idx3-ubyte", "nonsense" + images, "train-images-idx3-ubyte"},
      {"train-images-idx3-ubyte", "", "train-images-idx3-ubyte"},
      {"train-labels-idx1-ubyte", bad_label, "train-labels-idx1-ubyte"},
      {"train-labels-idx1-ubyte", testing::idx_bytes({329}, labels.substr(8, 329)), "329"},
      {"train-labels-idx1-ubyte", testing::gzip(labels).substr(0, 40), "train-labels-idx1-ubyte"},
  };
  for (const auto& [file, bytes, part] : cases) {
    const auto before = read_bytes(folder / "data" / file);
    write_bytes(folder / "data" / file, bytes);
    for (const int processes : {1, 2}) {
      const auto outcome = run(processes, with_data({"--epochs", "1"}));
      EXPECT_EQ(outcome.code, 1) << outcome.err;
      EXPECT_LT(outcome.seconds, 20);
      expect_parts(outcome.err, {part});
      EXPECT_TRUE(outcome.out.empty()) << outcome.out;
    }
    write_bytes(folder / "data" / file, before);
  }
  const auto missing = run(2, {"--data", path("nowhere")});
  EXPECT_EQ(missing.code, 1);
  expect_parts(missing.err, {path("nowhere")});
}

TEST_F(MnistDdp, a_rank_that_cannot_load_its_data_ends_all) {
  // The folder is a relative one, and rank 1 runs where there is no such folder.
  fs::create_directory(folder / "nowhere");
  const std::string script = "if [ $RANK = 1 ]; then cd " + path("nowhere") + "; else cd " +
                             folder.path().string() + "; fi; exec " + mnist_ddp + " --data data";
  const auto outcome = testing::run_process({tandemrun, "--nproc-per-node", "3", "sh", "-c", script},
                                            {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_LT(outcome.seconds, 20);
  expect_parts(outcome.err, {"[rank1]", "MNIST folder data does not exist", "rank 1 failed first"});
  EXPECT_EQ(outcome.err.find("[rank0]: "), std::string::npos) << outcome.err;
}

TEST_F(MnistDdp, says_which_rank_was_killed) {
  // Rank 1 dies once training has begun.
  const std::string script = "if [ $RANK = 1 ]; then (sleep 3; kill -9 $$) & fi; exec " + mnist_ddp +
                             " --data " + path("data") + " --epochs 100000";
  const auto outcome = testing::run_process({tandemrun, "--nproc-per-node", "2", "sh", "-c", script},
                                            {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(outcome.code, 128 + 9) << outcome.err;
  EXPECT_LT(outcome.seconds, 20);
  expect_parts(outcome.err, {"rank 1 failed first", "rank 1 ("});
}

TEST_F(MnistDdp, places_that_cannot_be_written_are_named_before_training) {
  write_bytes(folder / "file", "");
  for (const int processes : {1, 2}) {
    for (const auto& [flag, value] :
         {std::pair{"--save", path("file/net.safetensors")},
          std::pair{"--save", path("missing/net.safetensors")}, std::pair{"--checkpoint", path("file/c")},
          std::pair{"--checkpoint", path("file")},
          std::pair{"--checkpoint", std::string("/proc/checkpoints")},
          std::pair{"--metrics", path("missing/metrics.json")}, std::pair{"--log-dir", path("file/logs")}}) {
      const auto outcome = run(processes, with_data({flag, value}));
      EXPECT_EQ(outcome.code, 1) << flag << ' ' << value;
      EXPECT_TRUE(outcome.out.empty()) << outcome.out;
      expect_parts(outcome.err, {value.substr(0, value.rfind('/'))});
    }
  }
}

// A limit on the size of files stands for the full disk: the write fails part of the way.
TEST_F(MnistDdp, a_full_disk_leaves_no_partial_file) {
  const auto limited = [&](const std::string& arguments) {
    const std::string script = "ulimit -f 64; trap '' XFSZ; exec " + mnist_ddp + " --data " + path("data") +
                               " --epochs 1 " + arguments;
    return testing::run_process({"sh", "-c", script}, {{"OMP_NUM_THREADS", "1"}});
  };
  fs::create_directory(folder / "full");
  const auto save = limited("--save " + path("full/net.safetensors"));
  EXPECT_EQ(save.code, 1);
  expect_parts(save.err, {"full/net.safetensors"});
  EXPECT_TRUE(fs::is_empty(folder / "full"));
  const auto checkpoint = limited("--checkpoint " + path("full"));
  EXPECT_EQ(checkpoint.code, 1);
  expect_parts(checkpoint.err, {"full/checkpoint-0001-00000004.safetensors"});
  EXPECT_TRUE(fs::is_empty(folder / "full"));
}

TEST_F(MnistDdp, usage_errors_end_with_2) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--nonsense"},
                                             {"--batch-size", "0"},
                                             {"--lr", "nan"},
                                             {"--lr", "-1"},
                                             {"--epochs", "-3"},
                                             {"--device", "cuda"}}) {
    for (const int processes : {1, 2}) {
      const auto outcome = run(processes, with_data(arguments));
      EXPECT_EQ(outcome.code, 2) << arguments[0];
      expect_parts(outcome.err, {"mnist_ddp: " + arguments[0]});
      EXPECT_TRUE(outcome.out.empty()) << outcome.out;
    }
  }
  EXPECT_EQ(run(1, {"--help"}).code, 0);
}

TEST_F(MnistDdp, meets_at_a_tcp_address_without_a_launcher) {
  const std::string common =
      mnist_ddp + " --data " + path("data") + " --epochs 1 --timeout 20 --init-method tcp://127.0.0.1:$PORT";
  const std::string script = "PORT=$((20000 + $$ % 10000)); RANK=1 WORLD_SIZE=2 " + common +
                             " & RANK=0 WORLD_SIZE=2 " + common + "; code=$?; wait $! && exit $code";
  const auto outcome = testing::run_process({"sh", "-c", script}, {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(total_losses(outcome.out).size(), 1u);
}

TEST_F(MnistDdp, a_peer_that_never_comes_is_named_within_the_timeout) {
  const auto outcome = run(1, with_data({"--timeout", "1", "--init-method", "tcp://127.0.0.1:29871"}),
                           {{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_LT(outcome.seconds, 10);
  expect_parts(outcome.err, {"[rank0]: ", "rank 1 of 2 has not come within 1 s"});
}

TEST_F(MnistDdp, accumulates_and_compresses) {
  for (const int processes : {1, 2}) {
    const auto file = path("metrics" + std::to_string(processes));
    const auto outcome =
        run(processes, with_data({"--epochs", "1", "--accumulate", "3", "--unused", "skip", "--compress",
                                  "bf16", "--metrics", file, "--log-every", "1"}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto lines = json_lines(file);
    // Batches of 100, 100, 100 and 30: a step of three and one of what is left. On two processes 100 and 65: one step.
    ASSERT_EQ(lines.size(), processes == 1 ? 3u : 2u);
    double total = 0;
    for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
      EXPECT_EQ(lines[i]["step"], i + 1);
      const int batches = processes == 2 ? 4 : i == 0 ? 3 : 1;
      total += lines[i]["loss"].get<double>() * batches;
    }
    EXPECT_NEAR(total / lines.back()["total_loss"].get<double>(), 1, 1e-6);
    if (processes == 2) expect_parts(outcome.err, {"communication: no step"});
  }
}

}  // namespace
}  // namespace tandem
