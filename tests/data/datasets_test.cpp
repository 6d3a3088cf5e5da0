#include <tandem/data/array_dataset.h>
#include <tandem/data/combine.h>
#include <tandem/data/epoch.h>
#include <tandem/data/loader.h>
#include <tandem/data/sample_dataset.h>
#include <tandem/data/transforms.h>

#include <gtest/gtest.h>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem::data {
namespace {

using testing::counting;
using Indices = std::vector<std::int64_t>;

// Sample i is an image (1, 2, 3) and a mask (2, 3), both computed from i.
class Images : public SampleDataset {
 public:
  std::int64_t size() const override { return 10; }
  Sample sample(std::int64_t index) const override {
    const Array image = Array::empty({1, 2, 3});
    for (int i = 0; i < 6; ++i) image.data<float>()[i] = static_cast<float>(10 * index + i);
    return {image, image.select(0, 0).to(DType::u8)};
  }
};

std::vector<float> inputs_of(const Dataset& dataset, const Indices& indices) {
  return dataset.get(indices).inputs.to_vector<float>();
}

TEST(SampleDataset, StacksSamples) {
  const Batch batch = Images().get(Indices{3, 1});
  EXPECT_EQ(batch.inputs.shape(), (Shape{2, 1, 2, 3}));
  EXPECT_TRUE(batch.inputs.is_channels_last());
  EXPECT_EQ(batch.targets.shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(batch.inputs.to_vector<float>(), (std::vector<float>{30, 31, 32, 33, 34, 35, 10, 11, 12, 13, 14, 15}));
  EXPECT_ERROR(Images().get(Indices{10}), "sample 10 was requested, there are 10");
}

TEST(SampleDataset, SaysWhichSamplesDiffer) {
  struct Growing : Images {
    Sample sample(std::int64_t index) const override { return {counting({1, 2, index + 1}), {}}; }
  };
  EXPECT_ERROR(Growing().get(Indices{1, 1, 4}), "the first is (1, 2, 2) f32, the one at 2 is (1, 2, 5) f32");
  EXPECT_FALSE(Growing().get(Indices{1}).targets.defined());
}

TEST(SampleDataset, AllSamplesOfABatchHaveATargetOrNone) {
  struct SomeLabelled : Images {
    Sample sample(std::int64_t index) const override {
      return {counting({1, 2, 2}), index == 1 ? Array() : counting({1}, DType::i64)};
    }
  };
  EXPECT_ERROR(SomeLabelled().get(Indices{0, 1, 2}), "of the 3 samples of a batch, 2 have a target");
  EXPECT_TRUE(SomeLabelled().get(Indices{0, 2}).targets.defined());
}

TEST(SampleDataset, TakesACollateFunctionOfOnesOwn) {
  // Sentences of different lengths, padded with zeros.
  struct Sentences : SampleDataset {
    std::int64_t size() const override { return 4; }
    Sample sample(std::int64_t index) const override { return {counting({index + 1}, DType::i64), {}}; }
    Batch collate(std::span<const Sample> samples) const override {
      std::int64_t longest = 0;
      for (const Sample& s : samples) longest = std::max(longest, s.input.dim(0));
      Array padded = Array::empty({static_cast<std::int64_t>(samples.size()), longest}, DType::i64);
      padded.fill(0);
      for (std::size_t i = 0; i < samples.size(); ++i)
        padded.select(0, static_cast<std::int64_t>(i)).slice(0, 0, samples[i].input.dim(0)).copy_from(samples[i].input);
      return {padded, {}};
    }
  };
  const Sentences sentences;
  SequentialSampler sampler(4);
  Loader loader(sentences, sampler, {.batch_size = 4, .workers = 2});
  for (auto& [tokens, none] : loader)
    EXPECT_EQ(tokens.to_vector<std::int64_t>(), (Indices{0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 2, 0, 0, 1, 2, 3}));
}

TEST(ArrayDataset, GathersRows) {
  const ArrayDataset rows(counting({4, 2}), counting({4}, DType::i64));
  const Batch batch = rows.get(Indices{2, 0, 2});
  EXPECT_EQ(batch.inputs.to_vector<float>(), (std::vector<float>{4, 5, 0, 1, 4, 5}));
  EXPECT_EQ(batch.targets.to_vector<std::int64_t>(), (Indices{2, 0, 2}));
  EXPECT_FALSE(ArrayDataset(counting({4, 2})).get(Indices{1}).targets.defined());
  EXPECT_ERROR(rows.get(Indices{-1}), "sample -1 was requested, there are 4");
  EXPECT_ERROR(ArrayDataset(counting({4, 2}), counting({3})), "one row for each sample");
}

TEST(ArrayDataset, GivesAnyNumberOfArrays) {
  const ArrayDataset rows(counting({4, 2}), counting({4}, DType::i64), {counting({4, 3}), counting({4}, DType::f64)});
  const Batch batch = rows.get(Indices{2, 0});
  ASSERT_EQ(batch.more.size(), 2u);
  EXPECT_EQ(batch.more[0].to_vector<float>(), (std::vector<float>{6, 7, 8, 0, 1, 2}));
  EXPECT_EQ(batch.more[1].to_vector<double>(), (std::vector<double>{2, 0}));
  // Collating single samples gives the same batch.
  const Batch stacked = rows.collate(std::vector{rows.sample(2), rows.sample(0)});
  ASSERT_EQ(stacked.more.size(), 2u);
  EXPECT_EQ(stacked.more[0].to_vector<float>(), batch.more[0].to_vector<float>());
  EXPECT_EQ(stacked.targets.to_vector<std::int64_t>(), (Indices{2, 0}));

  const auto& [inputs, targets] = batch;
  EXPECT_EQ(inputs.raw(), batch.inputs.raw());
  EXPECT_EQ(targets.raw(), batch.targets.raw());

  // Data sets may have no targets, and several data sets may be concatenated.
  const ArrayDataset masked(counting({3}), {}, {counting({3, 1})}), plain(counting({2}));
  EXPECT_FALSE(masked.get(Indices{1}).targets.defined());
  EXPECT_EQ(masked.get(Indices{1}).more[0].to_vector<float>(), (std::vector<float>{1}));
  EXPECT_EQ(ConcatDataset({&masked, &masked}).get(Indices{4, 2, 0}).more.at(0).to_vector<float>(),
            (std::vector<float>{1, 2, 0}));
  EXPECT_ERROR(ConcatDataset({&masked, &plain}).get(Indices{0, 3}), "no targets and 1 more arrays",
               "and 0 more arrays");
  EXPECT_ERROR(ConcatDataset({&plain, &masked}).get(Indices{0, 2}), "no targets and 0 more arrays",
               "and 1 more arrays");
  const ArrayDataset labelled(counting({2}), counting({2}));
  EXPECT_ERROR(ConcatDataset({&plain, &labelled}).get(Indices{0, 2}), "with inputs, no targets",
               "with inputs, targets");
  EXPECT_ERROR(ConcatDataset({&labelled, &plain}).get(Indices{0, 2}), "with inputs, targets",
               "with inputs, no targets");
  EXPECT_ERROR(ArrayDataset(counting({4}), {}, {counting({3})}), "one row for each sample");
  EXPECT_ERROR(ArrayDataset(counting({4}), {}, {Array()}), "one row for each sample");
  EXPECT_ERROR(masked.collate(std::vector{masked.sample(0), plain.sample(0)}), "the samples of a batch differ");
}

TEST(Subset, ShowsTheSamplesItNames) {
  const ArrayDataset rows(counting({6}));
  const Subset odd(rows, {5, 3, 1});
  EXPECT_EQ(odd.size(), 3);
  EXPECT_EQ(inputs_of(odd, {2, 0}), (std::vector<float>{1, 5}));
  EXPECT_EQ(inputs_of(Subset(odd, {1}), {0}), (std::vector<float>{3}));
  EXPECT_ERROR(odd.get(Indices{3}), "sample 3 was requested, there are 3");
  EXPECT_ERROR(Subset(rows, {6}), "sample 6 was requested, there are 6");
}

// torch.utils.data.random_split with torch.Generator().manual_seed(3).
TEST(RandomSplit, IsPyTorchs) {
  const ArrayDataset ten(counting({10})), eleven(counting({11}));
  Generator generator(3);
  const auto parts = random_split(ten, Indices{3, 7}, generator);
  EXPECT_EQ(parts.at(0).indices(), (Indices{6, 0, 3}));
  EXPECT_EQ(parts.at(1).indices(), (Indices{7, 8, 5, 1, 9, 2, 4}));
  generator.manual_seed(3);
  const auto fractions = random_split(eleven, std::vector<double>{0.3, 0.3, 0.4}, generator);
  EXPECT_EQ(fractions.at(0).indices(), (Indices{9, 0, 3, 6}));
  EXPECT_EQ(fractions.at(1).indices(), (Indices{4, 5, 2}));
  EXPECT_EQ(fractions.at(2).indices(), (Indices{8, 1, 10, 7}));
  generator.manual_seed(3);
  EXPECT_EQ(random_split(ten, {3, 7}, generator).at(0).indices(), parts.at(0).indices());
  generator.manual_seed(3);
  EXPECT_EQ(random_split(eleven, {0.3, 0.3, 0.4}, generator).at(2).indices(), fractions.at(2).indices());
  EXPECT_ERROR(random_split(ten, Indices{3, 8}), "the parts have 11 samples, but the data set has 10");
  EXPECT_ERROR(random_split(ten, std::vector<double>{0.5, 0.4}), "must add up to 1");
}

TEST(ConcatDataset, IsOneAfterTheOther) {
  const ArrayDataset a(counting({3, 2}), counting({3}, DType::i64)), b(counting({2, 2}), counting({2}, DType::i64));
  const ConcatDataset both({&a, &b});
  EXPECT_EQ(both.size(), 5);
  const Batch batch = both.get(Indices{4, 0, 3, 2});
  EXPECT_EQ(batch.inputs.to_vector<float>(), (std::vector<float>{2, 3, 0, 1, 0, 1, 4, 5}));
  EXPECT_EQ(batch.targets.to_vector<std::int64_t>(), (Indices{1, 0, 0, 2}));
  EXPECT_EQ(both.get({}).inputs.shape(), (Shape{0, 2}));
  const ArrayDataset wide(counting({1, 3}));
  EXPECT_ERROR(ConcatDataset({&b, &wide}).get(Indices{0, 2}), "returns samples of (2, 2) f32");
  EXPECT_ERROR(ConcatDataset({}), "at least one");
}

TEST(Transforms, DoTheSameToImageAndMask) {
  const Images images;
  const Transformed flipped(images, {random_horizontal_flip(1)});
  const Sample sample = flipped.sample(0);
  EXPECT_EQ(sample.input.to_vector<float>(), (std::vector<float>{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(sample.target.to_vector<float>(), (std::vector<float>{2, 1, 0, 5, 4, 3}));

  const Transformed cropped(images, {random_crop(1, 2, 1)}, 7);
  bool padded = false;
  for (std::int64_t i = 0; i < 10; ++i) {
    const Sample s = cropped.sample(i);
    ASSERT_EQ(s.input.shape(), (Shape{1, 1, 2}));
    const auto pixels = s.input.to_vector<float>(), mask = s.target.to_vector<float>();
    for (std::size_t k = 0; k < 2; ++k) {
      const bool outside = mask[k] == 255;
      padded |= outside;
      EXPECT_EQ(pixels[k], outside ? 0 : mask[k]);
    }
  }
  EXPECT_TRUE(padded);
  EXPECT_EQ(Transformed(images, {center_crop(2, 1)}).sample(0).input.to_vector<float>(), (std::vector<float>{1, 4}));
  EXPECT_ERROR(Transformed(images, {center_crop(3, 1)}).sample(0), "the image is 2 x 3, smaller");
}

TEST(Transforms, NumbersAreTorchvisions) {
  struct Bytes : Images {
    Sample sample(std::int64_t) const override {
      return {Array::from(std::vector<std::uint8_t>{0, 51, 255, 128}, {2, 1, 2}), {}};
    }
  };
  const Bytes bytes;
  const Transformed made(bytes, {to_float(), normalize({0.5f, 0.25f}, {0.5f, 2.0f})});
  const auto values = made.sample(0).input.to_vector<float>();
  EXPECT_EQ(values, (std::vector<float>{-1, (51 / 255.0f - 0.5f) / 0.5f, 0.375f, (128 / 255.0f - 0.25f) / 2}));
  EXPECT_ERROR(Transformed(bytes, {to_float(), normalize({0}, {1})}).sample(0), "with 1 channels");
}

TEST(Transforms, DependOnSeedEpochAndSampleAlone) {
  const Images images;
  Transformed a(images, {random_crop(1, 1)}, 1), b(images, {random_crop(1, 1)}, 1),
      other(images, {random_crop(1, 1)}, 2);
  const Indices all{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto first = inputs_of(a, all);
  EXPECT_EQ(inputs_of(a, all), first);
  EXPECT_NE(inputs_of(other, all), first);
  {
    const EpochScope scope({.number = 1});
    EXPECT_NE(inputs_of(a, all), first);
  }
  // Single samples and worker threads give the same numbers.
  for (const auto i : all) EXPECT_EQ(b.sample(i).input.item(), first[static_cast<std::size_t>(i)]);
  SequentialSampler sampler(10);
  Loader loader(b, sampler, {.batch_size = 3, .workers = 3});
  std::vector<float> loaded;
  for (auto& [inputs, targets] : loader)
    for (const float v : inputs.to_vector<float>()) loaded.push_back(v);
  EXPECT_EQ(loaded, first);
}

TEST(SampleRandom, IsUniform) {
  double sum = 0;
  std::vector<int> counts(5);
  for (int i = 0; i < 5000; ++i) {
    SampleRandom random(9, 2, i);
    sum += random.uniform();
    ++counts[static_cast<std::size_t>(random.below(5))];
  }
  EXPECT_NEAR(sum / 5000, 0.5, 0.02);
  for (const int count : counts) EXPECT_NEAR(count, 1000, 120);
}

}  // namespace
}  // namespace tandem::data
