#include <tandem/core/ops.h>
#include <tandem/data/array_dataset.h>
#include <tandem/distributed/training/same_samples.h>

#include <gtest/gtest.h>
#include <support/ranks.h>
#include <support/temporary_folder.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

namespace tandem::distributed {
namespace {

using Names = std::vector<std::string>;
using testing::Group;
using testing::message_of;

// Returns the error of each of three ranks. Rank 1 has the samples `names`, and has skipped "b" as damaged.
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
  // If the ranks only compared the number of samples, they would divide different data sets without an error.
  expect({"a", "b", "x"}, {"sample 2: 'x' and 'c'."});
}

// A data set in which each input has ten numbers. Input i has the mean magnitude i + 1, times `factor`, and the class i
// % 10.
std::shared_ptr<data::Dataset> classes(std::int64_t size, float factor = 1, std::int64_t wrong_class_at = -1) {
  std::vector<float> inputs;
  std::vector<std::int64_t> targets;
  for (std::int64_t i = 0; i < size; ++i) {
    inputs.insert(inputs.end(), 10, static_cast<float>(i + 1) * (i % 2 ? factor : -factor));
    targets.push_back(i == wrong_class_at ? 99 : i % 10);
  }
  return std::make_shared<data::ArrayDataset>(Array::from(inputs, {size, 10}), Array::from(targets, {size}));
}

// Returns the error of each of three ranks. Rank 1 has the data set `one`.
Names errors_with(const std::shared_ptr<data::Dataset>& one, const std::shared_ptr<data::Dataset>& others) {
  const auto results = testing::run_ranks_catching(3, [&](Group group) {
    manual_seed(static_cast<std::uint64_t>(group->rank()));
    const auto before = default_generator().state();
    check_same_samples(*group, "training images", group->rank() == 1 ? *one : *others);
    EXPECT_EQ(default_generator().state(), before);
  });
  Names errors;
  for (const auto& result : results) errors.push_back(message_of(result));
  return errors;
}

const Names none = {"", "", ""};

TEST(CheckSameDataSets, equal_ones_are_fine_in_any_size) {
  for (const std::int64_t size : {0, 1, 2, 3, 4, 257, 60000})
    EXPECT_EQ(errors_with(classes(size), classes(size)), none);
}

TEST(CheckSameDataSets, other_sizes_are_an_error_with_ranks_and_sizes) {
  for (const auto& error : errors_with(classes(100), classes(600)))
    testing::expect_parts(error, {"the ranks do not have the same training images: ", "rank 1 on host ", " has 100",
                                  "ranks 0 and 2 on host ", " have 600", "Give all of them the same files"});
  for (const auto& error : errors_with(classes(0), classes(5))) testing::expect_parts(error, {" has 0", " have 5"});
}

TEST(CheckSameDataSets, other_samples_in_equal_numbers_are_an_error) {
  const auto expect = [](const Names& errors, const std::string& part) {
    for (const auto& error : errors)
      testing::expect_parts(error,
                            {"all have 200, but the " + part + " of rank 1 on host ", " differ from those of rank 0"});
  };
  expect(errors_with(classes(200, 1.1F), classes(200)), "inputs");
  for (const std::int64_t at : {0, 1, 100, 199}) expect(errors_with(classes(200, 1, at), classes(200)), "targets");
}

// Different processors and image decoders round differently.
TEST(CheckSameDataSets, inputs_that_are_rounded_otherwise_are_the_same) {
  EXPECT_EQ(errors_with(classes(200, 1.001F), classes(200)), none);
}

// Random inputs may differ between ranks, so they can't be compared. Their targets are compared.
class Augmented : public data::SampleDataset {
 public:
  Augmented(std::int64_t first_class, bool uses_generator) : class_(first_class), uses_generator_(uses_generator) {}
  std::int64_t size() const override { return 8; }
  data::Sample sample(std::int64_t index) const override {
    data::SampleRandom random(static_cast<std::uint64_t>(class_), index);
    return {uses_generator_ ? ops::randn({4}) : ops::full({4}, random.uniform(), DType::f32),
            Array::from(std::vector<std::int64_t>{class_}, {})};
  }

 private:
  const std::int64_t class_;
  const bool uses_generator_;
};

TEST(CheckSameDataSets, random_inputs_are_not_compared) {
  const auto expect = [](const Names& errors) {
    for (const auto& error : errors) testing::expect_parts(error, {"all have 8, but the targets of rank 1"});
  };
  for (const bool uses_generator : {false, true})
    expect(errors_with(std::make_shared<Augmented>(1, uses_generator), std::make_shared<Augmented>(2, uses_generator)));
}

// The size of the samples decides how many of them a rank compares.
class RandomlySized : public data::SampleDataset {
 public:
  RandomlySized(std::int64_t numbers, std::int64_t first_class) : numbers_(numbers), class_(first_class) {}
  std::int64_t size() const override { return 100; }
  data::Sample sample(std::int64_t index) const override {
    const auto call = ++calls_;
    return {ops::full({numbers_ + call}, static_cast<double>(call), DType::f32),
            Array::from(std::vector<std::int64_t>{class_ + index}, {})};
  }

 private:
  const std::int64_t numbers_, class_;
  mutable std::atomic<std::int64_t> calls_ = 0;
};

TEST(CheckSameDataSets, inputs_of_random_sizes_let_the_first_targets_be_compared) {
  EXPECT_EQ(errors_with(std::make_shared<RandomlySized>(40000, 1), std::make_shared<RandomlySized>(8000, 1)), none);
  for (const auto& error :
       errors_with(std::make_shared<RandomlySized>(40000, 2), std::make_shared<RandomlySized>(8000, 1)))
    testing::expect_parts(error, {"all have 100, but the targets of rank 1"});
}

struct Unreadable : Augmented {
  Unreadable() : Augmented(0, false) {}
  data::Sample sample(std::int64_t) const override { detail::fail("damaged"); }
};

// Training names the damaged sample when it reaches it.
TEST(CheckSameDataSets, samples_that_cannot_be_read_are_not_compared) {
  EXPECT_EQ(errors_with(std::make_shared<Unreadable>(), std::make_shared<Augmented>(0, false)), none);
}

}  // namespace
}  // namespace tandem::distributed
