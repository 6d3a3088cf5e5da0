// Checkpoints on disks that fail and lose power. For each call of a series of saves, the tests check what resume finds.
#include <tandem/core/io/file_system.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/strategies/parameter_shards.h>
#include <tandem/distributed/training/checkpoints/checkpoint.h>
#include <tandem/distributed/training/checkpoints/checkpoint_lock.h>

#include <gtest/gtest.h>
#include <support/arrays.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <set>

#include "faults.h"
#include "support/mnist_ddp_fixture.h"

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;
using testing::FileCall;
using testing::JournalCall;
using testing::key_of;
using testing::LossyDisk;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::Watching;

TrainingState state_of(std::int64_t step, float value) {
  TrainingState state;
  state.program = "trainer";
  state.step = step;
  state.generator = Generator(5).state();
  state.losses = {value};
  Array weight = testing::counting({8, 6});
  state.model = {{"weight", weight}, {"bias", testing::counting({6})}};
  state.optimizer = {{"weight/momentum", weight}};
  return state;
}

// The checkpoints that a series of saves has written so far, in order, and the number of promised ones. A checkpoint is
// promised when its save has returned.
struct Written {
  std::vector<std::pair<std::string, std::string>> checkpoints;  // name and bytes
  std::size_t promised = 0;
  int attempts = 0;  // saves that were begun
};

// Resumes from `folder`. Returns "" if the job finds a checkpoint that it may find, and a description of the problem
// otherwise.
std::string problem_of(const fs::path& folder, const std::string& program, const Written& written) {
  try {
    create_folder(folder, "for checkpoints");
    const CheckpointLock lock(folder);
    const auto path = find_checkpoint(folder, program, [](const std::string&) {});
    if (!path) return written.promised == 0 ? "" : "no checkpoint, promised were " + std::to_string(written.promised);
    read_checkpoint(*path);
    const std::string bytes = read_bytes(*path);
    for (std::size_t i = written.promised == 0 ? 0 : written.promised - 1; i < written.checkpoints.size(); ++i) {
      if (written.checkpoints[i].first == path->filename() && written.checkpoints[i].second == bytes) return "";
    }
    return path->filename().string() + " is older than what was promised, or has other bytes";
  } catch (const std::exception& error) {
    return error.what();
  }
}

struct Figures {
  std::size_t calls = 0, points = 0, states = 0, losses = 0;
};

// Loses the power after each call of the journal. `folder` is the folder of checkpoints, relative to the watched one.
// `is_promised` returns whether a call proves that all checkpoints so far were promised.
template <class IsPromised>
Figures lose_power(const std::vector<JournalCall>& calls, const std::string& folder, const std::string& program,
                   IsPromised&& is_promised, std::size_t first_call = 0) {
  LossyDisk disk;
  Written written;
  Figures figures;
  static std::map<std::string, bool> known;  // shared by all tests, so that equal states are examined only once
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto& call = calls[i];
    disk.apply(call);
    const fs::path name = call.new_name;
    const std::string file = name.filename().string();
    const bool is_shard = file.find("-of-") != std::string::npos;
    if (call.call == FileCall::rename && call.error == 0 && file.starts_with("checkpoint-") && !is_shard)
      written.checkpoints.emplace_back(name.filename(), disk.read(call.new_name));
    const bool is_over = i + 1 == calls.size();
    if (is_over || is_promised(call)) written.promised = written.checkpoints.size();
    if (i < first_call) continue;
    ++figures.calls;
    disk.for_each_state([&](const LossyDisk::Contents& contents) {
      ++figures.points;
      std::string key = key_of(contents) + std::to_string(written.promised);
      for (const auto& [name, bytes] : written.checkpoints) key += key_of({{name, bytes}});
      const auto [known_one, is_new] = known.emplace(key, true);
      if (is_new) {
        ++figures.states;
        const TemporaryFolder rebuilt;
        testing::write_contents(contents, rebuilt.path());
        const auto problem = problem_of(rebuilt.path() / folder, program, written);
        known_one->second = problem.empty();
        if (!problem.empty() && figures.losses < 3) ADD_FAILURE() << "power lost after call " << i << ": " << problem;
      }
      figures.losses += !known_one->second;
    });
  }
  return figures;
}

void print(const std::string& what, const Figures& figures) {
  std::cout << what << ": power lost after each of " << figures.calls << " calls, points tried " << figures.points
            << " (" << figures.states << " different states), losses " << figures.losses << "\n";
}

// A job starts, saves five times, and saves its last checkpoint again. It repeats each step that fails, as a restarted
// job would. When it removes a file in the watched folder, that marks a promise in the journal.
constexpr int saves = 6;
const char* const mark = "promised";

// Writes a checkpoint as one file, or as two shards and an index, as the ranks of a job do one after the other.
void save(const fs::path& folder, TrainingState state, bool in_shards, std::set<fs::path>& proven, int attempt) {
  if (!in_shards) return save_checkpoint(folder, state, 2, &proven);
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", attempt);
  state.shards = digits;
  state.world_size = 2;
  state.losses.push_back(0);
  remove_unused_shards(folder);
  for (int rank = 0; rank < 2; ++rank) {
    TrainingState mine = state;
    mine.of_rank = {{rank_name(rank, "optimizer/weight/shard"), shard(state.optimizer[0].array, rank, 2)}};
    mine.optimizer.clear();
    if (rank > 0) mine.model.clear();
    save_shard(folder, mine, rank);
  }
  state.divided = {{"optimizer/weight/shard", {{8, 6}, {6, 1}}}};
  save_checkpoint(folder, state, 2, &proven);
}

void save_series(const fs::path& root, Written& written, bool in_shards, std::vector<std::string>* errors = nullptr) {
  const auto folder = root / "runs" / "mnist";
  const auto twice = [&](const auto& step) {
    testing::do_twice(step, [&](const std::string& error) {
      ASSERT_TRUE(errors != nullptr) << error;
      errors->push_back(error);
      // The promised checkpoints exist at once.
      if (fs::exists(folder)) {
        EXPECT_EQ(problem_of(folder, "trainer", written), "") << "after " << error;
      }
    });
  };
  twice([&] { create_folder(folder, "for checkpoints"); });
  std::set<fs::path> proven;
  for (int i = 1; i <= saves; ++i) {
    const auto state = state_of(std::min(i, saves - 1), static_cast<float>(i));
    char name[64];
    std::snprintf(name, sizeof name, "checkpoint-0000-%08d.safetensors%s", std::min(i, saves - 1),
                  in_shards ? ".index.json" : "");
    twice([&] {
      const CheckpointLock lock(folder);
      lock.check();
      // A save that fails may still have written its file.
      struct Note {
        const fs::path path;
        Written& written;
        ~Note() {
          const auto bytes = read_bytes(path);
          const std::pair<std::string, std::string> found(path.filename(), bytes);
          if (!bytes.empty() && (written.checkpoints.empty() || written.checkpoints.back() != found))
            written.checkpoints.push_back(found);
        }
      } note{folder / name, written};
      save(folder, state, in_shards, proven, ++written.attempts);
    });
    written.promised = written.checkpoints.size();
    ::unlink((root / mark).c_str());
  }
}

bool is_mark(const JournalCall& call) { return call.call == FileCall::remove && call.name == mark; }

// The call that marks a promise fails, because there is no such file, but it still counts.
class CheckpointFaults : public ::testing::TestWithParam<bool> {};  // whether checkpoints are in shards
INSTANTIATE_TEST_SUITE_P(Shards, CheckpointFaults, ::testing::Bool());

TEST_P(CheckpointFaults, power_is_lost_after_each_call) {
  const TemporaryFolder folder, journals;
  {
    const Watching watching(folder.path(), journals / "journal");
    Written written;
    save_series(folder.path(), written, GetParam());
  }
  const auto calls = testing::read_journal(journals / "journal");
  const auto figures = lose_power(calls, "runs/mnist", "trainer", is_mark);
  print("six saves", figures);
  EXPECT_EQ(figures.losses, 0u);
  EXPECT_GT(figures.calls, 60u);
  EXPECT_GT(figures.points, 400u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "runs/mnist"), {}), GetParam() ? 6 : 2);
  // An index is removed before its shards.
  std::set<std::string> indices;
  for (const auto& call : calls) {
    const auto step = fs::path(call.name).filename().string().substr(0, std::string("checkpoint-0000-00000000").size());
    if (call.call == FileCall::rename && call.new_name.ends_with(".json")) indices.insert(call.new_name);
    if (call.call == FileCall::remove) indices.erase(call.name);
    const bool is_shard = call.name.find("-of-") != std::string::npos;
    if (call.call == FileCall::remove && is_shard && step != "checkpoint-0000-00000005") {
      EXPECT_FALSE(indices.contains("runs/mnist/" + step + ".safetensors.index.json")) << call.name;
    }
  }
}

// Each call of the series fails in each way. For one failed call in eight, the power is also lost after each call that
// follows.
TEST_P(CheckpointFaults, each_call_fails_and_power_is_lost_later) {
  long calls = 0;
  {
    const TemporaryFolder folder;
    const Watching watching(folder.path());
    Written written;
    save_series(folder.path(), written, GetParam());
    calls = faulty_files_calls();
  }
  Figures all;
  std::size_t faults = 0, errors = 0;
  for (const auto& way : testing::all_ways) {
    for (long call = 1; call <= calls; call += GetParam() && !testing::tries_all() ? 3 : 1) {
      SCOPED_TRACE(testing::text_of(call, way));
      const TemporaryFolder folder, journals;
      std::vector<std::string> texts;
      {
        const Watching watching(folder.path(), journals / "journal");
        faulty_files_fail(call, way.error, way.lasts);
        Written written;
        ASSERT_NO_THROW(save_series(folder.path(), written, GetParam(), &texts));
        EXPECT_EQ(written.promised, written.checkpoints.size());
      }
      ++faults;
      errors += texts.size();
      if (!testing::tries_all() && call % (GetParam() ? 24 : 8) != 1) continue;
      const auto figures = lose_power(testing::read_journal(journals / "journal"), "runs/mnist", "trainer", is_mark,
                                      static_cast<std::size_t>(call - 1));
      EXPECT_EQ(figures.losses, 0u);
      all.calls += figures.calls;
      all.points += figures.points;
      all.states += figures.states;
      all.losses += figures.losses;
      if (HasFailure()) return;
    }
  }
  std::cout << "failed calls " << faults << ", errors " << errors << "\n";
  print("six saves with a failed call", all);
  EXPECT_GT(faults, 600u);
  EXPECT_GT(errors, 100u);
  EXPECT_GT(all.points, 50000u);
}

// This is a real job. When it begins to write a file, all checkpoints before that file were promised.
TEST(CheckpointsOfAProgram, power_is_lost_under_mnist_ddp) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "data");
  fs::create_directory(folder / "watched");
  testing::write_subset(folder / "data", 330, 64);
  const auto outcome = testing::run_mnist_ddp(
      1,
      {"--data", (folder / "data").string(), "--checkpoint", (folder / "watched/runs/mnist").string(),
       "--save-every-steps", "1", "--max-steps", "4", "--keep-last", "2"},
      {{"LD_PRELOAD", TANDEM_PROGRAM_DIR "/faulty_files.so"},
       {"ASAN_OPTIONS", "verify_asan_link_order=0"},
       {"FAULTY_FILES", (folder / "watched").string()},
       {"FAULTY_JOURNAL", (folder / "journal").string()}});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::string program;
  for (const auto& entry : fs::directory_iterator(folder / "watched/runs/mnist"))
    program = read_checkpoint(entry.path()).program;
  const auto begins_a_file = [](const JournalCall& call) { return call.call == FileCall::create; };
  const auto figures = lose_power(testing::read_journal(folder / "journal"), "runs/mnist", program, begins_a_file);
  print("mnist_ddp", figures);
  EXPECT_EQ(figures.losses, 0u);
  EXPECT_GT(figures.calls, 60u);
  EXPECT_GT(figures.points, 300u);
}

}  // namespace
}  // namespace tandem::distributed
