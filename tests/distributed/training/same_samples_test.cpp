#include <tandem/distributed/training/same_samples.h>

#include <gtest/gtest.h>
#include <support/ranks.h>
#include <support/temporary_folder.h>

#include <chrono>

namespace tandem::distributed {
namespace {

using Names = std::vector<std::string>;
using testing::Group;
using testing::message_of;

// What each of three ranks ends with when rank 1 has the samples `names`, and left "b" out as damaged.
Names errors_with(const Names& names) {
  const auto results = testing::run_ranks_catching(
      3,
      [&](Group group) {
        const auto explain = [](const std::string& name) { return name == "b" ? "b.jpg is damaged" : ""; };
        check_same_samples(*group, "'train'", group->rank() == 1 ? names : Names{"a", "b", "c"}, explain);
      },
      std::chrono::seconds(20), "gloo");
  Names errors;
  for (const auto& result : results) errors.push_back(message_of(result));
  return errors;
}

TEST(CheckSameSamples, equal_lists_are_fine) { EXPECT_EQ(errors_with({"a", "b", "c"}), (Names{"", "", ""})); }

TEST(CheckSameSamples, a_difference_ends_all_ranks_and_is_named) {
  const auto expect = [](const Names& names, const std::vector<std::string>& parts) {
    const Names errors = errors_with(names);
    for (const auto& error : errors) testing::expect_parts(error, {"rank 1"});
    testing::expect_parts(errors[1], {"the processes do not have the same samples of 'train': rank 1 on host ",
                                      ", rank 0 on host ", " has 3. The first difference is at sample "});
    for (const auto& part : parts) testing::expect_parts(errors[1], {part});
  };
  expect({"a", "c"}, {" has 2,", "sample 1: 'c' and 'b'; 'b' was left out here: b.jpg is damaged"});
  expect({"a", "b", "c", "d"}, {" has 4,", "sample 3: 'd' and none"});
  expect({"a", "b"}, {"sample 2: none and 'c'."});
  // The same number of samples would divide the data set without a word.
  expect({"a", "b", "x"}, {"sample 2: 'x' and 'c'."});
}

}  // namespace
}  // namespace tandem::distributed
