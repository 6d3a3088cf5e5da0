#include <tandem/core/io/safetensors.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/training/checkpoints/checkpoint.h>
#include <tandem/distributed/training/checkpoints/checkpoint_writer.h>
#include <tandem/distributed/training/checkpoints/rank_arrays.h>

#include <gtest/gtest.h>
#include <support/arrays.h>
#include <support/ranks.h>
#include <support/temporary_folder.h>

#include <chrono>
#include <optional>
#include <thread>

namespace tandem::distributed {
namespace {

using namespace std::chrono_literals;
using testing::expect_same;
using testing::Group;
using testing::read_bytes;
using testing::run_ranks;
using testing::run_ranks_catching;
using testing::TemporaryFolder;
using testing::write_bytes;

// Names, shapes and dtypes differ between ranks. Rank 1 has no arrays.
std::vector<NamedArray> arrays_of(int rank) {
  if (rank == 1) return {};
  std::vector<NamedArray> arrays{{"hook/a", ops::full({rank + 2, 3}, rank).transpose(0, 1)},
                                 {"step", ops::scalar(rank, DType::i64)}};
  if (rank == 2) arrays.push_back({"empty", ops::zeros({0, 4})});
  if (rank == 2) arrays.push_back({"generator", ops::full({5}, 7, DType::u8)});
  return arrays;
}

TrainingState example() {
  TrainingState state;
  state.program = "trainer";
  state.world_size = 3;
  state.losses = {1, 2, 3};
  state.model = {{"weight", ops::ones({4, 4})}, {"count", ops::full({3}, 9, DType::u8)}};
  return state;
}

TEST(RankArrays, come_back_to_their_ranks) {
  const TemporaryFolder folder;
  run_ranks(3, [&](Group group) {
    RankArrays of_ranks(*group, arrays_of(group->rank()));
    EXPECT_EQ(of_ranks.all().size(), 6u);
    EXPECT_EQ(of_ranks.bytes(), 6 * 4 + 8 + 12 * 4 + 8 + 5u);
    if (group->rank() != 0) return of_ranks.give();
    TrainingState state = example();
    state.to_write = &of_ranks;
    save_checkpoint(folder.path(), state, 1);
  });
  const auto path = folder / "checkpoint-0000-00000000.safetensors";
  for (int rank = 0; rank < 4; ++rank) {
    const auto state = read_checkpoint(path, rank);
    EXPECT_EQ(state.model.size(), 2u);
    EXPECT_TRUE(state.has_own_random_numbers);
    const auto expected = rank < 3 ? arrays_of(rank) : std::vector<NamedArray>{};
    ASSERT_EQ(state.of_rank.size(), expected.size()) << rank;
    for (const auto& [name, array] : expected) {
      const auto found = std::find_if(state.of_rank.begin(), state.of_rank.end(),
                                      [&name = name](const NamedArray& a) { return a.name == name; });
      ASSERT_NE(found, state.of_rank.end()) << name;
      expect_same(array.contiguous(), found->array, name);
    }
  }

  // Flips a bit in rank 2's part of the state. The rank that looks for a complete checkpoint reads every part. Other
  // ranks read only their own.
  std::string bytes = read_bytes(path);
  bytes[bytes.rfind(std::string(5, 7)) + 2] ^= 1;
  write_bytes(path, bytes);
  EXPECT_EQ(read_checkpoint(path, 0).of_rank.size(), 2u);
  testing::expect_parts(testing::error_of([&] { read_checkpoint(path, 2); }), {"rank-2/generator", "CRC-32"});
  std::string said;
  EXPECT_THROW(find_checkpoint(folder.path(), "trainer", [&](const std::string& line) { said += line; }), Error);
  testing::expect_parts(said, {"rank-2/generator", "CRC-32"});
}

// Rank 0 takes the copies when the training has changed the arrays and the other ranks do something else.
TEST(RankArrays, copies_outlive_a_change_and_need_no_group) {
  const TemporaryFolder now, later;
  run_ranks(3, [&](Group group) {
    for (const auto* const folder : {&now, &later}) {
      auto mine = arrays_of(group->rank());
      auto of_ranks = std::make_unique<RankArrays>(*group, mine);
      if (group->rank() != 0) {
        of_ranks->give();
        continue;
      }
      PendingCheckpoint pending;
      pending.state = example();
      pending.of_ranks = std::move(of_ranks);
      if (folder == &later) {
        pending.copy_arrays();
        pending.receive();
        for (auto& entry : mine) entry.array.fill(99);
        std::thread([&] { save_checkpoint(folder->path(), pending.state, 1); }).join();
      } else {
        pending.state.to_write = pending.of_ranks.get();
        save_checkpoint(folder->path(), pending.state, 1);
      }
    }
  });
  const auto name = "checkpoint-0000-00000000.safetensors";
  EXPECT_GT(read_bytes(now / name).size(), 500u);
  EXPECT_EQ(read_bytes(now / name), read_bytes(later / name));
}

// Rank 0 takes longer than the group's timeout. The array is too large for a message that is sent at once.
TEST(RankArrays, wait_for_a_slow_disk) {
  for (const std::string backend : {"shm", "gloo"}) {
    run_ranks(
        2,
        [](Group group) {
          RankArrays of_ranks(*group, {{"a", ops::full({4 << 20}, group->rank())}});
          if (group->rank() == 1) return of_ranks.give();
          std::this_thread::sleep_for(2500ms);
          for (const auto& array : of_ranks.all())
            EXPECT_EQ(of_ranks.take(array).data<float>()[1 << 20], array.name == "rank-1/a" ? 1 : 0);
        },
        1s, backend);
  }
}

TEST(RankArrays, end_in_time_when_rank_0_fails) {
  const auto start = std::chrono::steady_clock::now();
  const auto results = run_ranks_catching(
      2,
      [](Group group) {
        RankArrays of_ranks(*group, {{"a", ops::full({1000}, group->rank())}});
        if (group->rank() == 1) return of_ranks.give();
        throw Error("the disk is full");
      },
      3s);
  EXPECT_TRUE(results[0] && results[1]);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
}

TEST(RankArrays, have_names_of_their_rank) {
  EXPECT_EQ(parse_rank_name("rank-12/hook/a/q"), (std::pair<std::int64_t, std::string>(12, "hook/a/q")));
  for (const char* name : {"rank-/a", "rank-1", "rank-x/a", "rank--1/a", "model/rank-1/a", "rank-1a/b", ""})
    EXPECT_FALSE(parse_rank_name(name)) << name;
}

}  // namespace
}  // namespace tandem::distributed
