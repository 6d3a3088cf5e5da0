// Compares the programs of apps/examples with the same networks in PyTorch, with the same weights and batches.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "support/mnist_ddp_fixture.h"
#include "support/process.h"
#include "support/torch_python.h"

namespace tandem::testing {
namespace {

const std::string golden = std::string(TANDEM_SOURCE_DIR) + "/tests/golden/";

class Example : public ::testing::TestWithParam<const char*> {};

TEST_P(Example, HasPyTorchsLosses) {
  const std::string name = GetParam();
  std::ifstream file(golden + "examples.json");
  const auto expected = nlohmann::json::parse(file).at(name).get<std::vector<double>>();
  const auto run = run_process(
      {std::string(TANDEM_PROGRAM_DIR) + "/examples/" + name, "file", golden + "example_" + name + ".safetensors"},
      {{"OMP_NUM_THREADS", "1"}});
  ASSERT_EQ(run.code, 0) << run.err;
  std::istringstream lines(run.out);
  std::vector<double> found;
  for (double loss = 0; lines >> loss;) found.push_back(loss);
  ASSERT_EQ(found.size(), expected.size()) << run.out;
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4 * expected[i]) << "step " << i;
}

INSTANTIATE_TEST_SUITE_P(Programs, Example, ::testing::Values("resnet", "char_transformer", "unet", "gan"),
                         [](const auto& info) { return std::string(info.param); });

// Python reads the weights under PyTorch's own names, and computes the same results as the program.
TEST(ToPythonExample, writes_files_that_torch_computes_the_same_from) {
  TANDEM_NEEDS_TORCH();
  const TemporaryFolder folder;
  const auto program = run_process({std::string(TANDEM_PROGRAM_DIR) + "/examples/to_python", folder.path().string()});
  ASSERT_EQ(program.code, 0) << program.err;
  const auto python = run_process({"/usr/bin/env", torch_python(), "-c", R"(
import sys, torch, safetensors.torch
folder = sys.argv[1]
net = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
numbers = safetensors.torch.load_file(folder + "/numbers.safetensors")
for weights in torch.load(folder + "/net.pth"), safetensors.torch.load_file(folder + "/net.safetensors"):
    net.load_state_dict(weights)
    torch.testing.assert_close(net(numbers["x"]).detach(), numbers["y"])
squares = (numbers["x"] ** 2).sum(1, keepdim=True)
assert (numbers["y"] - squares).abs().max() < 0.3, numbers["y"] - squares
)",
                                   folder.path().string()});
  EXPECT_EQ(python.code, 0) << python.err;
}

TEST(ToPythonExample, asks_for_a_folder) {
  const auto outcome = run_process({std::string(TANDEM_PROGRAM_DIR) + "/examples/to_python"});
  EXPECT_EQ(outcome.code, 2);
  expect_parts(outcome.err, {"to_python: expected a folder"});
}

// Returns the percentages after "test accuracy ".
std::vector<std::string> accuracies(const std::string& out) {
  std::vector<std::string> found;
  const std::regex pattern("test accuracy ([0-9.]+) %");
  for (auto match = std::sregex_iterator(out.begin(), out.end(), pattern); match != std::sregex_iterator(); ++match)
    found.push_back((*match)[1]);
  return found;
}

// mnist_ddp gives its loader an explicit sampler, and the example's loader makes one. Both print two decimals.
TEST(MnistExample, has_the_numbers_of_mnist_ddp) {
  const TemporaryFolder folder;
  write_subset(folder.path(), 1000, 500);
  for (const int processes : {1, 2}) {
    std::vector<std::string> command;
    if (processes > 1) command = {tandemrun, "--nproc-per-node", std::to_string(processes)};
    command.push_back(std::string(TANDEM_PROGRAM_DIR) + "/examples/mnist");
    const auto example = run_process(command, {{"TANDEM_DATA", folder.path().string()}, {"OMP_NUM_THREADS", "1"}});
    ASSERT_EQ(example.code, 0) << example.err;
    const auto found = accuracies(example.out);
    EXPECT_EQ(found.size(), 5u) << example.out;
    const auto whole = run_mnist_ddp(
        processes, {"--data", folder.path().string(), "--lr", "0.02", "--momentum", "0.9", "--batch-size", "100"});
    ASSERT_EQ(whole.code, 0) << whole.err;
    EXPECT_EQ(found, accuracies(whole.out)) << processes << " processes: " << example.out << whole.out;
    EXPECT_GT(std::stod(found.back()), 80) << example.out;
  }
}

TEST(ElasticExample, learns_under_the_launcher_and_alone) {
  const TemporaryFolder folder;
  write_subset(folder.path(), 1000, 500);
  for (const int processes : {1, 3}) {
    std::vector<std::string> command;
    if (processes > 1) command = {tandemrun, "--elastic", "--nproc-per-node", std::to_string(processes)};
    command.push_back(std::string(TANDEM_PROGRAM_DIR) + "/examples/elastic");
    const auto example = run_process(command, {{"TANDEM_DATA", folder.path().string()}, {"OMP_NUM_THREADS", "1"}});
    ASSERT_EQ(example.code, 0) << example.err;
    expect_parts(example.out, {"Epoch 1, " + std::to_string(processes) + " ranks: test accuracy", "Epoch 3, "});
    const auto mark = std::string("accuracy ");
    EXPECT_GT(std::stod(example.out.substr(example.out.rfind(mark) + mark.size())), 70) << example.out;
  }
}

TEST(MnistExample, explains_a_failure) {
  const auto outcome =
      run_process({std::string(TANDEM_PROGRAM_DIR) + "/examples/mnist"}, {{"TANDEM_DATA", "/nowhere/mnist"}});
  EXPECT_EQ(outcome.code, 1);
  expect_parts(outcome.err, {"mnist: ", "/nowhere/mnist"});
}

// The program at the start of the pages is the example's main().
TEST(MnistExample, is_what_the_pages_show) {
  const std::string fence = "```cpp\n";
  const std::string program = read_bytes(TANDEM_SOURCE_DIR "/apps/examples/mnist.cpp");
  const std::pair<std::string, std::string> pages[] = {{"README.md", "struct Net"},
                                                       {"docs/your_own_program.md", "int main("}};
  for (const auto& [page, beginning] : pages) {
    const std::string text = read_bytes(std::string(TANDEM_SOURCE_DIR "/") + page);
    const auto begin = text.find(fence), end = text.find("```\n", begin + fence.size());
    ASSERT_NE(begin, std::string::npos) << page;
    ASSERT_NE(end, std::string::npos) << page;
    const std::string code = text.substr(begin + fence.size(), end - begin - fence.size());
    EXPECT_TRUE(code.starts_with(beginning)) << page << " begins with other code";
    EXPECT_TRUE(program.ends_with("\n\n" + code)) << page << " shows what the example is not:\n" << code;
  }
}

}  // namespace
}  // namespace tandem::testing
