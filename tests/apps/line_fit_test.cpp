// The example of docs/your_own_program.md, and the page itself.
#include <gtest/gtest.h>
#include <support/process.h>
#include <support/temporary_folder.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>

namespace tandem {
namespace {

using testing::read_bytes;
using testing::run_process;
using testing::TemporaryFolder;

const std::string line_fit = TANDEM_PROGRAM_DIR "/line_fit";

TEST(LineFit, FindsTheLineOnOneProcessAndOnThree) {
  for (const auto& start : {std::vector<std::string>{}, {TANDEM_PROGRAM_DIR "/tandemrun", "--nproc-per-node", "3"}}) {
    const TemporaryFolder folder;
    auto command = start;
    command.insert(command.end(), {line_fit, "--points", (folder / "points").string()});
    const auto outcome = run_process(command, {{"OMP_NUM_THREADS", "1"}});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    int ranks = 0;
    double worst = 1, slope = 0, offset = 0;
    std::sscanf(outcome.out.c_str(), "worst loss of %d ranks: %lf y = %lf x + %lf", &ranks, &worst, &slope, &offset);
    EXPECT_EQ(ranks, start.empty() ? 1 : 2);
    EXPECT_LT(worst, 1e-6);
    EXPECT_NEAR(slope, 3, 1e-3);
    EXPECT_NEAR(offset, -1, 1e-3);
  }
}

std::string without_indentation(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);)
    result += line.substr(std::min(line.find_first_not_of(' '), line.size())) + "\n";
  return result;
}

TEST(LineFit, ThePageShowsWhatIsCompiled) {
  const std::filesystem::path source = TANDEM_SOURCE_DIR;
  std::string code;
  for (const char* program :
       {"apps/examples/mnist.cpp", "apps/examples/three_ways.cpp", "apps/line_fit.cpp", "apps/multi_init.cpp"})
    code += without_indentation(read_bytes(source / program));
  const auto page = read_bytes(source / "docs/your_own_program.md");
  const std::string fence = "```cpp\n";
  int blocks = 0;
  for (auto begin = page.find(fence); begin != std::string::npos; begin = page.find(fence, begin + 1), ++blocks) {
    const auto first = begin + fence.size();
    const auto block = without_indentation(page.substr(first, page.find("```", first) - first));
    EXPECT_NE(code.find(block), std::string::npos) << block;
  }
  EXPECT_EQ(blocks, 7);
}

}  // namespace
}  // namespace tandem
