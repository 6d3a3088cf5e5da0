// Tests which parts of the progress line a narrow terminal shows.
#include <tandem/distributed/training/metrics/console.h>

#include <gtest/gtest.h>

namespace tandem::distributed {
namespace {

TEST(Console, AProgressLineHasWholePartsAlone) {
  const std::vector<std::string> parts = {"epoch 60/100 batch 100/600", "loss 2.402", "0:01 left, job 1h26m",
                                          "21933 images/s"};
  const std::string whole = "epoch 60/100 batch 100/600  loss 2.402  0:01 left, job 1h26m  21933 images/s";
  EXPECT_EQ(progress_line(parts, 79), whole);
  EXPECT_EQ(progress_line(parts, whole.size()), whole);
  EXPECT_EQ(progress_line(parts, whole.size() - 1), whole.substr(0, whole.rfind("  ")));
  EXPECT_EQ(progress_line(parts, 40), "epoch 60/100 batch 100/600  loss 2.402");
  EXPECT_EQ(progress_line(parts, 37), "epoch 60/100 batch 100/600");
  EXPECT_EQ(progress_line(parts, 10), "");
}

}  // namespace
}  // namespace tandem::distributed
