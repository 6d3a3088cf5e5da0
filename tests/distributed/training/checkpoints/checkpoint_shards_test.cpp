// Checkpoints in shards: one file for each rank, and an index, without which they are not a checkpoint.
#include <tandem/core/device/memory_stats.h>
#include <tandem/core/io/arrays_file.h>
#include <tandem/core/io/input_file.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/strategies/parameter_shards.h>
#include <tandem/distributed/training/checkpoints/checkpoint.h>
#include <tandem/nn/conv.h>
#include <tandem/optim/adam.h>

#include <gtest/gtest.h>
#include <support/arrays.h>
#include <support/process.h>
#include <support/saving_job.h>
#include <support/small_training.h>
#include <support/temporary_folder.h>
#include <support/torch_python.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <vector>

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;
using testing::counting;
using testing::error_of;
using testing::expect_parts;
using testing::expect_same;
using testing::Group;
using testing::read_bytes;
using testing::run_ranks;
using testing::SavingJob;
using testing::TemporaryFolder;
using testing::write_bytes;

const std::string moment = "optimizer/conv/exp_avg";

// The divided array, in an order that is not row-major.
Array divided_array() { return testing::counting({4, 3, 5, 2}).channels_last(); }

TrainingState example(std::int64_t step, std::int64_t ranks, const std::string& digits = "0123abcd") {
  TrainingState state;
  state.program = "trainer";
  state.step = step;
  state.world_size = ranks;
  state.generator = Generator(5).state();
  state.losses.assign(static_cast<std::size_t>(ranks), 1);
  state.shards = digits;
  return state;
}

// Writes the shard of a rank. Rank 0 has the model, and each rank an array of its own.
void save_one(const fs::path& folder, TrainingState state, int rank) {
  const int ranks = static_cast<int>(state.world_size);
  state.of_rank = {{rank_name(rank, moment), shard(divided_array(), rank, ranks)},
                   {rank_name(rank, "hook/error"), ops::full({3}, rank)}};
  if (rank == 0) state.model = {{"conv", divided_array()}};
  if (rank == 0) state.optimizer = {{"conv/step", ops::scalar(7, DType::i64)}};
  save_shard(folder, state, rank);
}

void save_all(const fs::path& folder, TrainingState state, std::int64_t keep_last = 2) {
  for (int rank = 0; rank < state.world_size; ++rank) save_one(folder, state, rank);
  state.divided = {{moment, {divided_array().shape(), divided_array().strides()}}};
  save_checkpoint(folder, state, keep_last);
}

// The same as one file, of step 2.
TrainingState whole_example() {
  TrainingState state = example(2, 3, "");
  state.model = {{"conv", divided_array()}};
  state.optimizer = {{"conv/step", ops::scalar(7, DType::i64)}, {"conv/exp_avg", divided_array()}};
  return state;
}

fs::path index_of(std::int64_t step) {
  char name[64];
  std::snprintf(name, sizeof name, "checkpoint-0000-%08d.safetensors.index.json", static_cast<int>(step));
  return name;
}

std::vector<fs::path> shards_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().string().find("-of-") != std::string::npos) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

// The step of the checkpoint that a job would resume from, or -1, and the warnings on the way.
std::pair<std::int64_t, std::string> newest_in(const fs::path& folder) {
  std::string warnings;
  const auto path = find_checkpoint(folder, "trainer", [&](const std::string& line) { warnings += line + "\n"; });
  return {path ? read_checkpoint(*path).step : -1, warnings};
}

// ---- The index

TEST(ShardIndex, notices_every_damage) {
  const TemporaryFolder folder;
  const auto path = folder / "index.json";
  const ShardIndex written{{{"step", "7"}, {"options", "--a=\"tandem.crc32\": \"12345678\""}},
                           {{"optimizer/w", {{2, 3}, {1, 2}}}, {"optimizer/s", {{}, {}}}},
                           {{"model/w", "a.safetensors"}, {"rank-1/optimizer/w", "b.safetensors"}}};
  written.write(path);
  const auto read = ShardIndex::read(path);
  EXPECT_EQ(read.metadata, written.metadata);
  EXPECT_EQ(read.divided, written.divided);
  EXPECT_EQ(read.file_of, written.file_of);
  const std::string bytes = read_bytes(path);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const int bit : {0, 3, 6}) {
      auto damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      write_bytes(path, damaged);
      EXPECT_THROW(ShardIndex::read(path), Error) << "byte " << i << " bit " << bit;
    }
    write_bytes(path, bytes.substr(0, i));
    EXPECT_THROW(ShardIndex::read(path), Error) << i << " bytes";
  }
  EXPECT_THROW(ShardIndex::read(folder / "none"), UnreadableFile);
}

TEST(ShardIndex, names_no_file_elsewhere) {
  const TemporaryFolder folder;
  ShardIndex{{}, {}, {{"model/w", "../a.safetensors"}}}.write(folder / "index.json");
  EXPECT_ERROR(ShardIndex::read(folder / "index.json"), "names the file \"../a.safetensors\" in another folder");
  ShardIndex{{}, {{"w", {{-2}, {1}}}}, {}}.write(folder / "index.json");
  EXPECT_ERROR(ShardIndex::read(folder / "index.json"), "-2");
  ShardIndex{{{"name", "\xff"}}, {}, {}};
  EXPECT_ERROR((ShardIndex{{{"name", "\xff"}}, {}, {}}.write(folder / "index.json")), "cannot write", "UTF-8");
}

TEST(Join, gives_each_rank_what_it_needs) {
  for (const Array& array : {divided_array(), counting({7}), counting({1}), counting({}), counting({0, 3}),
                             counting({6, 5}).transpose(0, 1)}) {
    const Layout layout{array.shape(), array.strides()};
    for (int ranks = 1; ranks <= 5; ++ranks) {
      std::map<std::int64_t, Array> all;
      for (int r = 0; r < ranks; ++r) all[r] = shard(array, r, ranks);
      const Array whole = join(all, layout, ranks, {});
      expect_same(array.contiguous(), whole.contiguous(), "whole");
      if (array.numel() > 0) {
        EXPECT_EQ(whole.strides(), array.strides());
      }
      for (int now = 2; now <= 6; ++now) {
        for (int r = 0; r < now; ++r) {
          std::map<std::int64_t, Array> needed;
          for (const auto& [rank, piece] : all)
            if (overlaps({r, now}, rank, ranks)) needed[rank] = piece;
          EXPECT_LE(static_cast<int>(needed.size()), (ranks + now - 1) / now + 1);
          expect_same(shard(array, r, now), join(needed, layout, ranks, {r, now}), "shard");
        }
      }
    }
  }
}

TEST(Join, refuses_what_does_not_fit) {
  const Layout layout{{2, 3}, {3, 1}};
  const std::map<std::int64_t, Array> shards{{0, counting({3})}, {1, counting({3})}};
  EXPECT_ERROR(join({}, layout, 2, {}), "no shard");
  EXPECT_ERROR(join({{0, counting({3})}}, layout, 2, {}), "rank 1 has no shard");
  EXPECT_ERROR(join({{0, counting({3})}, {1, counting({4})}}, layout, 2, {}), "the shard of rank 1 is (4) f32",
               "expected (3)");
  EXPECT_ERROR(join({{0, counting({3})}, {1, counting({3}, DType::i64)}}, layout, 2, {}), "i64");
  for (const Strides& strides : {Strides{1, 1}, Strides{3, 2}, Strides{1000000000, 1}})
    EXPECT_ERROR(join(shards, {{2, 3}, strides}, 2, {}), "do not fit its shape");
  EXPECT_ERROR(join(shards, {{2, 3}, {1}}, 2, {}), "");
  EXPECT_ERROR(join(shards, {{INT64_MAX / 2, 1}, {1, 1}}, 2, {}), "too large");
  EXPECT_ERROR(join(shards, {{INT64_MAX / 2, 3}, {1, 1}}, 2, {}), "64 bits");
}

// ---- Which checkpoint is valid

TEST(CheckpointShards, bring_back_every_bit) {
  const TemporaryFolder folder;
  save_all(folder.path(), example(5, 3));
  const auto path = folder / index_of(5);
  for (int rank = 0; rank < 4; ++rank) {
    const auto read = read_checkpoint(path, rank);
    EXPECT_EQ(read.step, 5);
    EXPECT_EQ(read.losses, (std::vector<float>{1, 1, 1}));
    ASSERT_EQ(read.model.size(), 1u);
    expect_same(divided_array().contiguous(), read.model[0].array.contiguous(), "model");
    ASSERT_EQ(read.optimizer.size(), 2u);
    for (const auto& [name, array] : read.optimizer)
      if (name == "conv/exp_avg") expect_same(divided_array().contiguous(), array.contiguous(), "moment");
    ASSERT_EQ(read.of_rank.size(), rank < 3 ? 1u : 0u);
    if (rank < 3) expect_same(ops::full({3}, rank), read.of_rank[0].array, "of rank");
  }
  const auto checked = read_checkpoint(path, 0, Unwanted::checked);
  EXPECT_EQ(checked.optimizer.size(), 1u);  // all files were read, but no divided array is kept
}

// A rank opens only the files that it needs.
TEST(CheckpointShards, are_read_where_they_are_needed) {
  const TemporaryFolder folder;
  save_all(folder.path(), example(5, 4));
  const auto path = folder / index_of(5);
  fs::remove(shards_in(folder.path())[3]);
  const auto first = read_checkpoint(path, 0, Unwanted::left, {0, 2});
  for (const auto& [name, array] : first.optimizer)
    if (name == "conv/exp_avg") expect_same(shard(divided_array(), 0, 2), array, "first half");
  EXPECT_ERROR(read_checkpoint(path, 1, Unwanted::left, {1, 2}), "-00004-of-00004.safetensors is missing");
  EXPECT_ERROR(read_checkpoint(path), "is missing");
}

// For each file: it is missing, short, damaged at any place, or the file of another rank or of another save.
TEST(CheckpointShards, with_a_bad_file_are_left_out) {
  const TemporaryFolder folder, others;
  save_all(folder.path(), example(1, 2));
  save_all(folder.path(), example(2, 2, "aaaaaaaa"));
  save_all(others.path(), example(2, 3));
  EXPECT_EQ(newest_in(folder.path()), (std::pair<std::int64_t, std::string>{2, ""}));
  auto files = shards_in(folder.path());
  ASSERT_EQ(files.size(), 4u);
  files = {files[2], files[3], folder / index_of(2)};
  const auto expect_older = [&](const std::string& what) {
    const auto [step, warnings] = newest_in(folder.path());
    EXPECT_EQ(step, 1) << what;
    expect_parts(warnings, {"warning: skipped the checkpoint", index_of(2).string(), "which is damaged"});
  };
  for (const auto& file : files) {
    const auto bytes = read_bytes(file);
    for (std::size_t i = 0; i < bytes.size(); i += 1 + bytes.size() / 150) {
      auto damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ 4);
      write_bytes(file, damaged);
      expect_older("byte " + std::to_string(i));
      write_bytes(file, bytes.substr(0, i));
      expect_older("short");
    }
    write_bytes(file, read_bytes(shards_in(others.path())[1]));
    expect_older("of another save");
    fs::remove(file);
    if (file == files[2]) EXPECT_EQ(newest_in(folder.path()), (std::pair<std::int64_t, std::string>{1, ""}));
    else expect_older("missing");
    write_bytes(file, bytes);
  }
  const auto first = read_bytes(files[0]), second = read_bytes(files[1]);
  write_bytes(files[0], second);
  write_bytes(files[1], first);
  expect_older("exchanged");
}

TEST(CheckpointShards, that_another_program_has_written_again_without_checksums_are_left_out) {
  const TemporaryFolder folder;
  save_all(folder.path(), example(1, 2));
  save_all(folder.path(), example(2, 2));
  const auto file = shards_in(folder.path())[3];
  const auto contents = read_safetensors(file);
  write_safetensors(file, contents.arrays, contents.metadata);
  const auto [step, warnings] = newest_in(folder.path());
  EXPECT_EQ(step, 1);
  expect_parts(warnings, {"has no checksums"});
}

TEST(CheckpointShards, need_all_files_before_the_index) {
  const TemporaryFolder folder;
  const auto state = example(1, 3);
  for (const int rank : {0, 2}) save_one(folder.path(), state, rank);
  expect_parts(error_of([&] { save_checkpoint(folder.path(), state, 2); }),
               {"cannot write", index_of(1).string(), "rank 0 does not see", "-00002-of-00003.safetensors",
                "a folder that all ranks share"});
  EXPECT_FALSE(has_checkpoints(folder.path()));
  // A file that is cut short is noticed too.
  save_one(folder.path(), state, 1);
  const auto file = shards_in(folder.path())[1];
  write_bytes(file, read_bytes(file).substr(0, 500));
  EXPECT_THROW(save_checkpoint(folder.path(), state, 2), Error);
  EXPECT_FALSE(has_checkpoints(folder.path()));
}

// ---- What is removed

TEST(CheckpointShards, leave_with_their_index) {
  const TemporaryFolder folder;
  for (int step = 1; step <= 4; ++step) save_all(folder.path(), example(step, 2));
  EXPECT_EQ(shards_in(folder.path()).size(), 4u);
  EXPECT_EQ(folder.names().size(), 6u);
  EXPECT_TRUE(fs::exists(folder / index_of(3)) && fs::exists(folder / index_of(4)));
  // A checkpoint in one file replaces them in the same way, also one of the same step.
  auto state = example(4, 2, "");
  save_checkpoint(folder.path(), state, 1);
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"checkpoint-0000-00000004.safetensors"}));
  save_all(folder.path(), example(4, 2), 1);
  EXPECT_EQ(folder.names().size(), 3u);
  EXPECT_TRUE(fs::exists(folder / index_of(4)));
}

TEST(CheckpointShards, of_an_interrupted_save_leave_with_the_next_one) {
  const TemporaryFolder folder;
  const auto keep = [&](const std::string& name) { write_bytes(folder / name, "a user's file"); };
  save_one(folder.path(), example(1, 2), 1);
  save_one(folder.path(), example(3, 2, "11111111"), 0);
  keep("checkpoint-0000-00000001-mine-00001-of-00002.safetensors");
  keep("checkpoint-0000-00000001-0123abcd-00001-of-00002.safetensors.old");
  save_all(folder.path(), example(2, 2));
  EXPECT_EQ(folder.names().size(), 5u);
  // The same step is saved again: the files of the first save leave when the index names those of the second one.
  save_one(folder.path(), example(2, 2, "22222222"), 0);
  EXPECT_EQ(newest_in(folder.path()).first, 2);
  save_all(folder.path(), example(2, 2, "33333333"));
  EXPECT_EQ(newest_in(folder.path()), (std::pair<std::int64_t, std::string>{2, ""}));
  EXPECT_EQ(folder.names().size(), 5u);
  for (const auto& file : shards_in(folder.path()))
    EXPECT_TRUE(file.string().find("33333333") != std::string::npos || read_bytes(file) == "a user's file") << file;
  save_one(folder.path(), example(9, 2, "44444444"), 0);
  remove_unused_shards(folder.path());
  EXPECT_EQ(folder.names().size(), 5u);
}

TEST(CheckpointShards, a_link_leads_to_the_best_index) {
  const TemporaryFolder folder;
  save_all(folder.path(), example(1, 2));
  auto whole = example(2, 2, "");
  save_checkpoint(folder.path(), whole, 2);
  const auto link = folder / "best.safetensors", index = folder / "best.safetensors.index.json";
  EXPECT_EQ(link_best_checkpoint(folder.path(), 1), "");
  EXPECT_EQ(read_checkpoint(index).step, 1);
  EXPECT_EQ(link_best_checkpoint(folder.path(), 2), "");
  EXPECT_FALSE(fs::exists(fs::symlink_status(index)));
  EXPECT_EQ(read_checkpoint(link).step, 2);
  EXPECT_EQ(link_best_checkpoint(folder.path(), 1), "");
  EXPECT_FALSE(fs::exists(fs::symlink_status(link)));
  EXPECT_EQ(fs::read_symlink(index), index_of(1));
}

TEST(CheckpointShards, the_first_file_is_a_file_of_weights_too) {
  const TemporaryFolder folder;
  save_all(folder.path(), example(1, 2));
  const auto arrays = load_arrays(shards_in(folder.path())[0]);
  ASSERT_EQ(arrays.size(), 1u);
  EXPECT_EQ(arrays[0].name, "conv");
  expect_same(divided_array().contiguous(), arrays[0].array, "weights");
}

// The Python code of docs/strategies.md, unchanged.
TEST(CheckpointShards, are_joined_by_a_few_lines_of_python) {
  TANDEM_NEEDS_TORCH();
  const TemporaryFolder folder;
  save_all(folder.path(), example(1, 3));
  save_checkpoint(folder.path(), whole_example(), 2);
  const std::string page = read_bytes(TANDEM_SOURCE_DIR "/docs/strategies.md"), fence = "```python\n";
  const auto begin = page.find(fence);
  ASSERT_NE(begin, std::string::npos);
  const std::string script =
      page.substr(begin + fence.size(), page.find("```", begin + fence.size()) - begin - fence.size()) + R"(
import sys

joined, whole = load_shards(sys.argv[1]), load_file(sys.argv[2])
for rank in range(3):
    assert torch.equal(joined.pop(f"rank-{rank}/hook/error"), torch.full((3,), float(rank)))
assert joined.keys() == whole.keys(), (joined.keys(), whole.keys())
for name in whole:
    assert joined[name].dtype == whole[name].dtype and torch.equal(joined[name], whole[name]), name
print(len(whole), "tensors are equal")
)";
  const auto outcome =
      testing::run_process({"/usr/bin/env", testing::torch_python(), "-c", script, (folder / index_of(1)).string(),
                            (folder / "checkpoint-0000-00000002.safetensors").string()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "3 tensors are equal\n");
}

// ---- Jobs

// Whole and sharded checkpoints of one state. Then jobs with all numbers of ranks, divided or not, resume from both,
// and go on with the same bits.
TEST(CheckpointShards, resume_as_whole_ones_do) {
  for (const int ranks : {1, 2, 3}) {
    const TemporaryFolder whole, shards;
    for (const bool in_shards : {false, true}) {
      run_ranks(ranks, [&](Group group) {
        SavingJob job(group, (in_shards ? shards : whole).path(), {}, 5, true, in_shards);
        for (int i = 0; i < 3; ++i) job.train();
        job.save();
        EXPECT_TRUE(job.folder.finish());
        EXPECT_TRUE(job.has(3));
        EXPECT_EQ(job.notes, std::vector<std::string>());
      });
    }
    EXPECT_EQ(shards_in(shards.path()).size(), static_cast<std::size_t>(ranks));
    for (const int now : {1, 2, 3, 5}) {
      for (const bool divides : {false, true}) {
        std::vector<Array> weights;
        for (const auto* const folder : {&whole, &shards}) {
          run_ranks(now, [&](Group group) {
            SCOPED_TRACE(std::to_string(ranks) + " ranks, then " + std::to_string(now) + (divides ? " divided" : ""));
            const TemporaryFolder scratch;
            SavingJob job(group, scratch.path(), {}, 5, divides);
            const auto found = find_checkpoint(folder->path(), "saving_job", [](const std::string&) { FAIL(); });
            ASSERT_TRUE(found);
            auto state = read_checkpoint(*found, group->rank(), Unwanted::left, job.job.share());
            job.job.restore(state, [](const std::string&) {});
            manual_seed(static_cast<std::uint64_t>(group->rank()));
            for (int i = 0; i < 2; ++i) job.train();
            if (group->rank() == 0) weights.push_back(job.model.parameters()[0].tensor.value().clone());
          });
        }
        ASSERT_EQ(weights.size(), 2u);
        expect_same(weights[0], weights[1], "weights");
      }
    }
  }
}

// Two optimizers, of which each trains a convolution. The weights of a convolution are not row-major in memory, and the
// state of the second optimizer has another prefix.
struct TwoOptimizers {
  TwoOptimizers(Group group_, const fs::path& folder, bool divides, bool shards = false)
      : group(std::move(group_)), options(folder) {
    if (divides) zero = std::make_unique<ZeroRedundancy>(model, group);
    else plain = std::make_unique<DistributedDataParallel>(model, group);
    const auto all = model.parameters();
    for (const std::size_t first : {0, 2})
      optimizers.push_back(std::make_unique<optim::Adam>(std::vector<NamedTensor>{all[first], all[first + 1]}));
    state = std::make_unique<JobState>(*group, zero ? zero->ddp() : *plain, scaler, zero.get());
    for (const auto& optimizer : optimizers) {
      if (zero) zero->use(*optimizer);
      state->add(*optimizer);
    }
    options.checkpoint_shards = shards;
    checkpoints = std::make_unique<CheckpointFolder>(options, *group, *state, [](const std::string&) {});
  }
  void train() {
    model.zero_grad();
    if (zero) zero->zero_grad();
    auto& ddp = zero ? zero->ddp() : *plain;
    sum(ddp(Tensor(testing::noise_array({1, 2, 7, 7}, 0)))).backward();
    if (zero) zero->step();
    else
      for (const auto& optimizer : optimizers) optimizer->step();
  }

  Group group;
  testing::SavingOptions options;
  nn::Sequential model = (manual_seed(3), nn::Sequential{nn::Conv2d(2, 3, 3), nn::Conv2d(3, 4, 3)});
  std::unique_ptr<ZeroRedundancy> zero;
  std::unique_ptr<DistributedDataParallel> plain;
  std::vector<std::unique_ptr<optim::Adam>> optimizers;
  optim::GradScaler scaler{{.enabled = false}};
  std::unique_ptr<JobState> state;
  std::unique_ptr<CheckpointFolder> checkpoints;
};

TEST(CheckpointShards, have_the_state_of_all_optimizers) {
  const TemporaryFolder folder;
  std::vector<Array> expected;
  run_ranks(2, [&](Group group) {
    TwoOptimizers job(group, folder.path(), true, true);
    run_first(*group, [&] { job.checkpoints->open(); });
    for (int i = 0; i < 2; ++i) job.train();
    TrainingState state;
    state.program = "two";
    state.world_size = 2;
    state.generator = default_generator().state();
    job.checkpoints->save(std::move(state), ops::scalar(1), -1);
    job.checkpoints->finish();
    for (int i = 0; i < 2; ++i) job.train();
    if (group->rank() == 0)
      for (const auto& parameter : job.model.parameters()) expected.push_back(parameter.tensor.value().clone());
  });
  for (const int ranks : {1, 2, 3}) {
    for (const bool divides : {false, true}) {
      run_ranks(ranks, [&](Group group) {
        TwoOptimizers job(group, folder.path(), divides);
        auto state = read_checkpoint(folder / "checkpoint-0000-00000000.safetensors.index.json", group->rank(),
                                     Unwanted::left, job.state->share());
        EXPECT_EQ(state.divided.size(), 8u);
        job.state->restore(state, [](const std::string& line) { EXPECT_TRUE(line.find("processes") != line.npos); });
        for (int i = 0; i < 2; ++i) job.train();
        for (std::size_t i = 0; i < expected.size(); ++i)
          testing::expect_close(expected[i], job.model.parameters()[i].tensor.value(), 1e-6, std::to_string(i));
      });
    }
  }
}

TEST(CheckpointShards, of_another_memory_order_are_refused_with_a_way_out) {
  const TemporaryFolder folder;
  run_ranks(2, [&](Group group) {
    SavingJob job(group, folder.path(), {}, 4, true, true);
    job.train();
    job.save();
    job.folder.finish();
    auto state = read_checkpoint(job.file(1), group->rank(), Unwanted::left, job.job.share());
    ASSERT_EQ(state.divided.size(), 2u);
    state.divided.at("optimizer/0.weight/momentum").strides = {1, 4};
    EXPECT_ERROR(job.job.restore(state, [](const std::string&) {}), "0.weight/momentum", "strides (1, 4)", "(4, 1)",
                 "--strategy ddp");
  });
}

// ---- Memory and time

// Rank 0 holds its own shard and the model, and without memory for a copy nothing but what it trains with. The other
// ranks make no copy, so that the memory of all ranks together is that of rank 0.
TEST(CheckpointShards, need_the_memory_of_one_shard) {
  constexpr std::int64_t n = 300, layers = 25;
  constexpr double state = 4.0 * n * (n + 1) * layers;  // bytes of the model, and of the optimizer
  for (const int ranks : {2, 4}) {
    for (const bool copies : {true, false}) {
      double bytes[2] = {}, milliseconds[2] = {};
      for (const bool in_shards : {false, true}) {
        const TemporaryFolder folder;
        const auto body = [&](Group group) {
          CheckpointFolderOptions writing;
          if (!copies || group->rank() != 0) writing.available_memory = [] { return 0; };
          SavingJob job(group, folder.path(), writing, n, true, in_shards, layers);
          for (int i = 0; i < 3; ++i) {
            job.train();
            group->barrier()->wait();
            const auto before = memory_stats().bytes_in_use;
            group->barrier()->wait();
            if (group->rank() == 0) reset_peak_memory();
            group->barrier()->wait();
            const auto start = std::chrono::steady_clock::now();
            job.save();
            const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
            job.folder.finish();
            group->barrier()->wait();
            if (group->rank() != 0) continue;
            bytes[in_shards] = static_cast<double>(memory_stats().peak_bytes_in_use - before);
            milliseconds[in_shards] = 1e3 * seconds.count();
          }
        };
        run_ranks(ranks, body, std::chrono::seconds(60), "gloo");  // shared memory is not counted
      }
      std::printf(
          "%d ranks, %s: for %.1f MB of weights and %.1f MB of optimizer state, rank 0 needs %.1f MB, and in shards "
          "%.1f MB. A save blocks for %.0f and %.0f ms\n",
          ranks, copies ? "rank 0 copies" : "no copies", state / 1e6, state / 1e6, bytes[0] / 1e6, bytes[1] / 1e6,
          milliseconds[0], milliseconds[1]);
      // The search for NaN takes some memory too.
      const double model = copies ? state : 0;
      EXPECT_GT(bytes[0], model + state);
      EXPECT_LT(bytes[1], model + (copies ? state / ranks : 0) + 0.15 * state);
    }
  }
}

}  // namespace
}  // namespace tandem::distributed
