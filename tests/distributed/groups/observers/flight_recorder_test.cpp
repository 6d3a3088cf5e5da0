#include <tandem/core/ops/create.h>
#include <tandem/distributed/groups/observers/flight_recorder.h>

#include <gtest/gtest.h>
#include <support/temporary_folder.h>

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;
using testing::TemporaryFolder;
using State = FlightEntry::State;

struct File {
  FlightHeader header;
  std::vector<FlightEntry> entries;
};

File read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  File result;
  file.read(reinterpret_cast<char*>(&result.header), sizeof result.header);
  for (FlightEntry entry; file.read(reinterpret_cast<char*>(&entry), sizeof entry);) result.entries.push_back(entry);
  return result;
}

Members members_of(int size) {
  Members members;
  for (int r = 0; r < size; ++r) members.push_back({r, "host", "1", "here"});
  return members;
}

Operation bucket(int index) {
  return {Operation::Kind::all_reduce, "gradient bucket " + std::to_string(index), {}, {ops::zeros({2, 3})}};
}

TEST(FlightRecorder, keeps_the_last_operations_with_all_that_is_known) {
  const TemporaryFolder folder;
  FlightRecorder recorder({.folder = folder.path(), .rank = 3, .world_size = 5, .job = "this job", .capacity = 8});
  const int group = recorder.add_group("gloo", members_of(5));
  for (int i = 1; i <= 20; ++i) {
    const auto number = recorder.start(group, static_cast<std::uint64_t>(i), bucket(i), steady_clock::now());
    EXPECT_EQ(number, static_cast<std::uint64_t>(i));
    recorder.set_running(number, steady_clock::now());
    if (i < 20) recorder.end(number, i == 19, steady_clock::now());
  }
  recorder.end(1, true, steady_clock::now());  // its slot has a different entry by now
  const auto file = read(folder / "rank-3");
  EXPECT_EQ(file.header.rank, 3);
  EXPECT_EQ(file.header.world_size, 5);
  EXPECT_EQ(file.header.pid, getpid());
  EXPECT_STREQ(file.header.job, "this job");
  EXPECT_STREQ(file.header.groups[0].name, "gloo of ranks 0-4");
  EXPECT_EQ(file.header.count, 20u);
  ASSERT_EQ(file.entries.size(), 8u);
  for (std::uint64_t number = 13; number <= 20; ++number) {
    const auto& entry = file.entries[(number - 1) % 8];
    EXPECT_EQ(entry.number, number);
    EXPECT_EQ(entry.sequence, number);
    EXPECT_EQ(entry.name, "gradient bucket " + std::to_string(number));
    EXPECT_EQ(entry.state, number == 20 ? State::running : number == 19 ? State::failed : State::done);
    EXPECT_EQ(entry.ndim, 2);
    EXPECT_EQ(entry.shape[0], 2);
    EXPECT_EQ(entry.shape[1], 3);
    EXPECT_GE(entry.running, entry.started);
  }
}

TEST(FlightRecorder, the_file_outlives_sigkill) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    FlightRecorder recorder({.folder = folder.path(), .is_temporary = true});
    const auto number = recorder.start(recorder.add_group("shm", members_of(2)), 1, bucket(7), steady_clock::now());
    recorder.set_running(number, steady_clock::now());
    raise(SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto file = read(folder / "rank-0");
  ASSERT_FALSE(file.entries.empty());
  EXPECT_STREQ(file.entries[0].name, "gradient bucket 7");
  EXPECT_EQ(file.entries[0].state, State::running);
  EXPECT_EQ(file.header.has_left, 0u);
}

TEST(FlightRecorder, a_temporary_file_goes_unless_something_failed) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "well");
  { FlightRecorder recorder({.folder = folder / "well", .is_temporary = true}); }
  EXPECT_FALSE(fs::exists(folder / "well"));

  fs::create_directory(folder / "badly");
  ::testing::internal::CaptureStderr();
  {
    FlightRecorder recorder({.folder = folder / "badly", .rank = 0, .is_temporary = true});
    recorder.fail("rank 1 is gone");
    recorder.fail("and so is rank 2");
  }
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find((folder / "badly" / "rank-0").string()), std::string::npos) << said;
  EXPECT_STREQ(read(folder / "badly" / "rank-0").header.failure, "rank 1 is gone");

  { FlightRecorder recorder({.folder = folder.path()}); }
  EXPECT_EQ(read(folder / "rank-0").header.has_left, 1u);
}

TEST(FlightRecorder, equal_groups_have_different_names) {
  const TemporaryFolder folder;
  FlightRecorder recorder({.folder = folder.path(), .world_size = 4});
  recorder.add_group("shm", members_of(3));
  recorder.add_group("gloo", members_of(3));
  recorder.add_group("shm", members_of(3));
  recorder.add_group("shm", {members_of(4)[1], members_of(4)[3]});
  const auto header = read(folder / "rank-0").header;
  EXPECT_STREQ(header.groups[0].name, "shm of ranks 0-2");
  EXPECT_STREQ(header.groups[1].name, "gloo of ranks 0-2");
  EXPECT_STREQ(header.groups[2].name, "2. shm of ranks 0-2");
  EXPECT_STREQ(header.groups[3].name, "shm of ranks 1 and 3");
}

TEST(FlightRecorder, more_groups_than_it_has_room_for_are_counted) {
  const TemporaryFolder folder;
  FlightRecorder recorder({.folder = folder.path()});
  for (unsigned i = 0; i < FlightHeader::most_groups; ++i) EXPECT_EQ(recorder.add_group("shm", members_of(2)), int(i));
  const int late = recorder.add_group("shm", members_of(2));
  EXPECT_EQ(late, -1);
  EXPECT_EQ(recorder.start(late, 1, bucket(1), steady_clock::now()), 0u);
  EXPECT_EQ(read(folder / "rank-0").header.groups_left_out, 1u);
}

TEST(FlightRecorder, threads_do_not_mix_their_entries) {
  const TemporaryFolder folder;
  constexpr int threads = 4, each = 250;
  FlightRecorder recorder({.folder = folder.path(), .capacity = threads * each});
  const int group = recorder.add_group("shm", members_of(2));
  std::vector<std::thread> writers;
  for (int t = 0; t < threads; ++t) {
    writers.emplace_back([&, t] {
      for (int i = 0; i < each; ++i) {
        const auto number = recorder.start(group, static_cast<std::uint64_t>(t * each + i + 1),
                                           bucket(t * each + i + 1), steady_clock::now());
        recorder.set_running(number, steady_clock::now());
        recorder.end(number, false, steady_clock::now());
      }
    });
  }
  for (auto& writer : writers) writer.join();
  std::set<std::uint64_t> sequences;
  for (const auto& entry : read(folder / "rank-0").entries) {
    sequences.insert(entry.sequence);
    EXPECT_EQ(entry.name, "gradient bucket " + std::to_string(entry.sequence));
    EXPECT_EQ(entry.state, State::done);
  }
  EXPECT_EQ(sequences.size(), std::size_t{threads * each});
}

TEST(FlightRecorder, without_room_on_the_disk_it_is_an_error_and_leaves_no_file) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit little{10000, 10000};
    setrlimit(RLIMIT_FSIZE, &little);
    try {
      FlightRecorder recorder({.folder = folder.path()});
    } catch (const Error& error) {
      _exit(std::string(error.what()).find("rank-0") != std::string::npos ? 0 : 2);
    }
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(FlightRecorder, sigusr2_copies_the_file) {
  const TemporaryFolder folder;
  struct sigaction before {};
  sigaction(SIGUSR2, nullptr, &before);
  {
    FlightRecorder recorder({.folder = folder.path()});
    recorder.start(recorder.add_group("shm", members_of(2)), 1, bucket(4), steady_clock::now());
    raise(SIGUSR2);
    recorder.start(0, 2, bucket(5), steady_clock::now());
    EXPECT_EQ(read(folder / "copy/rank-0").header.count, 1u);
    EXPECT_STREQ(read(folder / "copy/rank-0").entries[0].name, "gradient bucket 4");
    raise(SIGUSR2);
    EXPECT_EQ(read(folder / "copy/rank-0").header.count, 2u);
  }
  raise(SIGUSR2);  // has no effect without a recorder
  sigaction(SIGUSR2, &before, nullptr);
}

// Ranks that are threads create their recorders concurrently, and any thread may receive the signal.
TEST(FlightRecorder, sigusr2_comes_while_recorders_come_and_go) {
  const TemporaryFolder folder;
  struct sigaction before {};
  sigaction(SIGUSR2, nullptr, &before);
  {
    const FlightRecorder first({.folder = folder.path(), .rank = 9});  // from here on, the signal has a handler
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        for (int i = 0; i < 100; ++i) {
          FlightRecorder recorder({.folder = folder.path(), .rank = rank});
          recorder.start(recorder.add_group("shm", members_of(2)), 1, bucket(rank), steady_clock::now());
          raise(SIGUSR2);
        }
      });
    }
  }
  for (const auto& file : fs::directory_iterator(folder / "copy"))
    EXPECT_EQ(read(file.path()).header.rank, file.path().filename().string().back() - '0') << file.path();
  sigaction(SIGUSR2, &before, nullptr);
}

TEST(FlightRecorder, an_operation_costs_less_than_100_ns) {
  const TemporaryFolder folder;
  FlightRecorder recorder({.folder = folder.path()});
  const int group = recorder.add_group("shm", members_of(2));
  const auto operation = bucket(12);
  const auto when = steady_clock::now();  // read once, because executors read the clock anyway
  double best = 1e9;
  for (int round = 0; round < 200; ++round) {
    constexpr int each = 1000;
    const auto start = steady_clock::now();
    for (int i = 0; i < each; ++i) {
      const auto number = recorder.start(group, 1, operation, when);
      recorder.set_running(number, when);
      recorder.end(number, false, when);
    }
    best = std::min(best, std::chrono::duration<double, std::nano>(steady_clock::now() - start).count() / each);
  }
  std::printf("%.1f ns for each operation\n", best);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
  EXPECT_LT(best, 10000);
#else
  EXPECT_LT(best, 100);
#endif
}

}  // namespace
}  // namespace tandem::distributed
