#include <tandem/core/io/arrays_file.h>
#include <tandem/core/io/safetensors.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/training/checkpoints/checkpoint.h>

#include <gtest/gtest.h>
#include <support/arrays.h>
#include <support/temporary_folder.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace tandem::distributed {
namespace {

using testing::counting;
using testing::expect_same;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;

TrainingState example(std::int64_t epoch, std::int64_t step) {
  TrainingState state;
  state.program = "trainer";
  state.epoch = epoch;
  state.step = step;
  state.position = 3;
  state.seed = 18446744073709551615u;
  state.world_size = 2;
  state.batch_size = 100;
  state.accumulate = 4;
  state.generator = Generator(5).state();
  state.losses = {0.1f, 1e-30f};
  state.model = {{"fc.weight", counting({3, 4})}, {"bn.num_batches_tracked", counting({}, DType::i64)}};
  state.optimizer = {{"fc.weight/momentum", counting({3, 4})}};
  return state;
}

std::vector<std::string> no_warnings;

std::optional<std::filesystem::path> find(const TemporaryFolder& folder, std::vector<std::string>& warnings,
                                          const std::string& program = "trainer") {
  return find_checkpoint(folder.path(), program, [&](const std::string& warning) { warnings.push_back(warning); });
}

TEST(Checkpoint, what_nobody_could_read_is_not_written) {
  const TemporaryFolder folder;
  auto state = example(0, 1);
  state.losses.pop_back();
  EXPECT_ERROR(save_checkpoint(folder.path(), state, 1), "the losses of 1 ranks", "its world_size is 2");
  state = example(0, -1);
  EXPECT_ERROR(save_checkpoint(folder.path(), state, 1), "step");
  EXPECT_TRUE(folder.names().empty());
}

TEST(Checkpoint, brings_back_every_bit) {
  const TemporaryFolder folder;
  const auto saved = example(2, 1203);
  save_checkpoint(folder.path(), saved, 3);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"checkpoint-0002-00001203.safetensors"});

  const auto path = find(folder, no_warnings);
  ASSERT_TRUE(path);
  const auto read = read_checkpoint(*path);
  EXPECT_EQ(read.program, saved.program);
  EXPECT_EQ(read.epoch, saved.epoch);
  EXPECT_EQ(read.step, saved.step);
  EXPECT_EQ(read.position, saved.position);
  EXPECT_EQ(read.seed, saved.seed);
  EXPECT_EQ(read.world_size, saved.world_size);
  EXPECT_EQ(read.accumulate, saved.accumulate);
  EXPECT_EQ(read.batch_size, saved.batch_size);
  EXPECT_EQ(read.generator, saved.generator);
  EXPECT_EQ(read.losses, saved.losses);
  ASSERT_EQ(read.model.size(), 2u);
  ASSERT_EQ(read.optimizer.size(), 1u);
  for (const auto& [name, array] : read.model) {
    expect_same(name == "fc.weight" ? saved.model[0].array : saved.model[1].array, array, name);
  }
  EXPECT_EQ(read.optimizer[0].name, "fc.weight/momentum");
  expect_same(saved.optimizer[0].array, read.optimizer[0].array, "momentum");
}

TEST(Checkpoint, is_a_safetensors_file_that_others_can_read) {
  const TemporaryFolder folder;
  save_checkpoint(folder.path(), example(0, 7), 3);
  const auto file = read_safetensors(folder / "checkpoint-0000-00000007.safetensors");
  std::vector<std::string> names;
  for (const auto& [name, array] : file.arrays) names.push_back(name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"model/bn.num_batches_tracked", "model/fc.weight",
                                             "optimizer/fc.weight/momentum"}));
  EXPECT_EQ(file.metadata.at("step"), "7");
  EXPECT_EQ(file.metadata.at("program"), "trainer");
}

TEST(Checkpoint, keeps_the_newest_and_touches_nothing_else) {
  const TemporaryFolder folder;
  write_bytes(folder / "checkpoint-notes.txt", "mine");
  for (int epoch = 1; epoch <= 12; ++epoch) save_checkpoint(folder.path(), example(epoch, epoch * 10), 2);
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"checkpoint-0011-00000110.safetensors",
                                                      "checkpoint-0012-00000120.safetensors", "checkpoint-notes.txt"}));
}

TEST(Checkpoint, keeps_those_that_it_is_told) {
  const TemporaryFolder folder;
  for (int step = 1; step <= 6; ++step) {
    auto state = example(0, step);
    if (step > 2) state.kept_steps = {2, 4};
    save_checkpoint(folder.path(), state, 1);
  }
  EXPECT_EQ(folder.names(),
            (std::vector<std::string>{"checkpoint-0000-00000002.safetensors", "checkpoint-0000-00000004.safetensors",
                                      "checkpoint-0000-00000006.safetensors"}));
  EXPECT_EQ(read_checkpoint(folder / "checkpoint-0000-00000006.safetensors").kept_steps,
            (std::set<std::int64_t>{2, 4}));
}

// load_arrays() reads the model's dict from a checkpoint, as from one of torch.save.
TEST(Checkpoint, is_a_file_of_weights_too) {
  const TemporaryFolder folder;
  auto state = example(0, 1);
  state.kept = {{"average/n_averaged", Array::from(std::vector<std::int64_t>{3}, {1})}};
  save_checkpoint(folder.path(), state, 1);
  const auto file = folder / "checkpoint-0000-00000001.safetensors";
  const auto model = load_arrays(file);
  ASSERT_EQ(model.size(), state.model.size());
  for (const auto& [name, array] : model) {
    const auto same = std::ranges::find(state.model, name, &NamedArray::name);
    ASSERT_NE(same, state.model.end()) << name;
    testing::expect_same(same->array, array, name);
  }
  const auto average = load_arrays(file, "kept/average");
  ASSERT_EQ(average.size(), 1u);
  EXPECT_EQ(average[0].name, "n_averaged");
  testing::expect_parts(testing::error_of([&] { load_arrays(file, "ema"); }),
                        {"is a checkpoint that has no \"ema\"; it has ", "\"kept\", \"model\", \"optimizer\""});
}

TEST(Checkpoint, a_link_leads_to_the_best_one) {
  const TemporaryFolder folder;
  const auto link = folder / "best.safetensors";
  for (const std::int64_t step : {10, 20, 30}) save_checkpoint(folder.path(), example(step / 10, step), 9);
  for (const std::int64_t step : {10, 30, 30, 20}) {
    EXPECT_EQ(link_best_checkpoint(folder.path(), step), "");
    EXPECT_EQ(read_checkpoint(link).step, step);
  }
  EXPECT_EQ(folder.names().size(), 4u);
  EXPECT_EQ(link_best_checkpoint(folder.path(), 40), "there is no checkpoint of step 40");
  EXPECT_EQ(find(folder, no_warnings)->filename(), "checkpoint-0003-00000030.safetensors");

  // A job without a best checkpoint leaves the link alone if its target exists.
  EXPECT_EQ(link_best_checkpoint(folder.path(), -1), "");
  EXPECT_TRUE(std::filesystem::exists(link));
  std::filesystem::remove(folder / "checkpoint-0002-00000020.safetensors");
  EXPECT_EQ(link_best_checkpoint(folder.path(), -1), "");
  EXPECT_FALSE(std::filesystem::is_symlink(link));

  write_bytes(link, "mine");
  EXPECT_NE(link_best_checkpoint(folder.path(), 10).find("best.safetensors is a file that Tandem did not write"),
            std::string::npos);
  EXPECT_EQ(read_bytes(link), "mine");
  // If the link can't be made, the function returns the reason and does nothing else.
  std::filesystem::remove(link);
  std::filesystem::create_directories(folder / ".best.safetensors.new" / "in the way");
  EXPECT_EQ(link_best_checkpoint(folder.path(), 10), "File exists");
  EXPECT_FALSE(std::filesystem::is_symlink(link));
}

// A job resumes from checkpoint 2, because checkpoint 4 is damaged. Its new checkpoint 3 has a smaller number than the
// damaged one.
TEST(Checkpoint, removes_no_whole_one_in_favour_of_a_damaged_one) {
  const TemporaryFolder folder;
  for (const int step : {2, 4}) save_checkpoint(folder.path(), example(0, step), 9);
  const auto damaged = folder / "checkpoint-0000-00000004.safetensors";
  write_bytes(damaged, read_bytes(damaged).substr(0, 100));
  save_checkpoint(folder.path(), example(0, 3), 1);
  EXPECT_EQ(folder.names(),
            (std::vector<std::string>{"checkpoint-0000-00000003.safetensors", "checkpoint-0000-00000004.safetensors"}));
  // The damaged checkpoint is now one of the older ones, where it does not count.
  save_checkpoint(folder.path(), example(0, 5), 2);
  EXPECT_EQ(folder.names(),
            (std::vector<std::string>{"checkpoint-0000-00000003.safetensors", "checkpoint-0000-00000004.safetensors",
                                      "checkpoint-0000-00000005.safetensors"}));
  save_checkpoint(folder.path(), example(0, 6), 2);
  EXPECT_EQ(folder.names(),
            (std::vector<std::string>{"checkpoint-0000-00000005.safetensors", "checkpoint-0000-00000006.safetensors"}));
}

TEST(Checkpoint, reads_older_ones_only_where_it_does_not_know_them) {
  const TemporaryFolder folder;
  save_checkpoint(folder.path(), example(0, 1), 3);
  std::set<std::filesystem::path> proven;
  for (int step = 2; step <= 4; ++step) save_checkpoint(folder.path(), example(0, step), 3, &proven);
  EXPECT_EQ(proven, (std::set<std::filesystem::path>{folder / "checkpoint-0000-00000002.safetensors",
                                                     folder / "checkpoint-0000-00000003.safetensors",
                                                     folder / "checkpoint-0000-00000004.safetensors"}));
}

TEST(Checkpoint, the_newest_is_the_one_with_the_largest_numbers) {
  const TemporaryFolder folder;
  for (const auto& [epoch, step] : {std::pair(1, 100), std::pair(12345, 5), std::pair(1, 123456789)}) {
    save_checkpoint(folder.path(), example(epoch, step), 9);
  }
  EXPECT_EQ(find(folder, no_warnings)->filename(), "checkpoint-12345-00000005.safetensors");
  std::filesystem::remove(*find(folder, no_warnings));
  EXPECT_EQ(find(folder, no_warnings)->filename(), "checkpoint-0001-123456789.safetensors");
}

TEST(Checkpoint, leaves_out_damaged_ones_and_says_so) {
  const TemporaryFolder folder;
  for (int epoch = 1; epoch <= 5; ++epoch) save_checkpoint(folder.path(), example(epoch, epoch), 9);
  const auto bytes = read_bytes(folder / "checkpoint-0005-00000005.safetensors");
  write_bytes(folder / "checkpoint-0005-00000005.safetensors", bytes.substr(0, bytes.size() / 2));
  write_bytes(folder / "checkpoint-0004-00000004.safetensors", "");
  write_safetensors(folder / "checkpoint-0003-00000003.safetensors", std::vector<NamedArray>{{"x", counting({1})}});
  std::vector<std::string> warnings;
  EXPECT_EQ(find(folder, warnings)->filename(), "checkpoint-0002-00000002.safetensors");
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_NE(warnings[0].find("checkpoint-0005-00000005.safetensors, which is damaged"), std::string::npos)
      << warnings[0];
  EXPECT_NE(warnings[2].find("no \"format\""), std::string::npos) << warnings[2];
}

TEST(Checkpoint, leaves_out_one_with_a_flipped_bit) {
  const TemporaryFolder folder;
  for (int step = 1; step <= 2; ++step) save_checkpoint(folder.path(), example(0, step), 9);
  const auto newest = folder / "checkpoint-0000-00000002.safetensors";
  const auto bytes = read_bytes(newest);
  const auto resumed = [&](std::size_t byte) {
    auto damaged = bytes;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 1);
    write_bytes(newest, damaged);
    std::vector<std::string> lines;
    EXPECT_EQ(find(folder, lines)->filename(), "checkpoint-0000-00000001.safetensors");
    EXPECT_EQ(lines.size(), 1u);
    return lines.at(0);
  };
  testing::expect_parts(resumed(bytes.size() - 1),
                        {"warning: skipped the checkpoint " + newest.string() + ", which is damaged",
                         "tensor \"optimizer/fc.weight/momentum\" should have the CRC-32"});
  testing::expect_parts(resumed(bytes.find("position\":\"3") + 11), {"its metadata should have the CRC-32"});
  // Such a checkpoint does not count among the kept ones either.
  save_checkpoint(folder.path(), example(0, 3), 2);
  EXPECT_EQ(folder.names().front(), "checkpoint-0000-00000001.safetensors");
}

TEST(Checkpoint, without_checksums_is_left_out) {
  const TemporaryFolder folder;
  save_checkpoint(folder.path(), example(1, 1), 3);
  const auto path = folder / "checkpoint-0001-00000001.safetensors";
  const auto file = read_safetensors(path);
  write_safetensors(path, file.arrays, file.metadata);
  std::vector<std::string> lines;
  EXPECT_ERROR(find(folder, lines), "none of the 1 checkpoints in");
  ASSERT_EQ(lines.size(), 1u);
  testing::expect_parts(
      lines[0], {"warning: skipped the checkpoint " + path.string() + ", which is damaged", "it has no checksums"});
}

TEST(Checkpoint, none_at_all_is_no_error_but_none_valid_is) {
  const TemporaryFolder folder;
  EXPECT_FALSE(find(folder, no_warnings));
  EXPECT_FALSE(find_checkpoint(folder / "missing", "trainer", nullptr));
  write_bytes(folder / "checkpoint-0001-00000001.safetensors", "nonsense");
  std::vector<std::string> warnings;
  EXPECT_ERROR(find(folder, warnings), "none of the 1 checkpoints in", "remove them");
}

// A job that took an unreadable folder for an empty one would begin from the start.
TEST(Checkpoint, a_folder_that_cannot_be_read_is_not_an_empty_one) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink(folder / "loop", folder / "loop");
  EXPECT_ERROR(has_checkpoints(folder / "loop"), "can't read the checkpoint folder", "loop");
  EXPECT_FALSE(has_checkpoints(folder / "none"));
}

TEST(Checkpoint, of_another_program_is_an_error) {
  const TemporaryFolder folder;
  save_checkpoint(folder.path(), example(1, 1), 3);
  EXPECT_ERROR(find(folder, no_warnings, "other"), "was written by trainer, this is other");
}

TEST(Checkpoint, that_cannot_be_written_leaves_the_older_ones) {
  const TemporaryFolder folder;
  save_checkpoint(folder.path(), example(1, 1), 1);
  // A folder already has the name of the checkpoint.
  std::filesystem::create_directory(folder / "checkpoint-0002-00000002.safetensors");
  EXPECT_ERROR(save_checkpoint(folder.path(), example(2, 2), 1), "checkpoint-0002-00000002.safetensors");
  EXPECT_EQ(folder.names(),
            (std::vector<std::string>{"checkpoint-0001-00000001.safetensors", "checkpoint-0002-00000002.safetensors"}));
}

}  // namespace
}  // namespace tandem::distributed
