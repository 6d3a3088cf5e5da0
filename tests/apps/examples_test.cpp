// The programs of apps/examples beside the same networks in PyTorch, from the same weights on the same batches.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/process.h"

namespace tandem::testing {
namespace {

const std::string golden = std::string(TANDEM_SOURCE_DIR) + "/tests/golden/";

class Example : public ::testing::TestWithParam<const char*> {};

TEST_P(Example, HasPyTorchsLosses) {
  const std::string name = GetParam();
  std::ifstream file(golden + "examples.json");
  const auto expected = nlohmann::json::parse(file).at(name).get<std::vector<double>>();
  const auto run = run_process(
      {std::string(TANDEM_PROGRAM_DIR) + "/examples/" + name, "file", golden + "example_" + name + ".safetensors"});
  ASSERT_EQ(run.code, 0) << run.err;
  std::istringstream lines(run.out);
  std::vector<double> found;
  for (double loss = 0; lines >> loss;) found.push_back(loss);
  ASSERT_EQ(found.size(), expected.size()) << run.out;
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4 * expected[i]) << "step " << i;
}

INSTANTIATE_TEST_SUITE_P(Programs, Example, ::testing::Values("resnet", "char_transformer"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tandem::testing
