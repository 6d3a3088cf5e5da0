// Tests the output of `tandemrun --explain` for flight records.
#include <tandem/core/ops/create.h>
#include <tandem/distributed/groups/host/host_group.h>
#include <tandem/distributed/groups/observers/flight_recorder.h>
#include <tandem/distributed/job/observers.h>
#include <tandem/distributed/launch/flight_explanation.h>
#include <tandem/distributed/store/tcp_store.h>

#include <gtest/gtest.h>
#include <support/temporary_folder.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::TemporaryFolder;

class FlightExplanation : public ::testing::Test {
 protected:
  // Writes the record of a rank that has finished the collectives 1 to `done`, and is in collective `running` unless
  // that is 0.
  void record(int rank, std::uint64_t done, std::uint64_t running, const std::string& job = "one",
              const Shape& shape = {4}) {
    FlightRecorder recorder({.folder = folder_.path(), .rank = rank, .world_size = 3, .job = job, .capacity = 10});
    Members members;
    for (int r = 0; r < 3; ++r) members.push_back({r, "host", "1", "here"});
    const int group = recorder.add_group("gloo", members);
    for (std::uint64_t s = 1; s <= std::max(done, running); ++s) {
      const Operation operation{
          Operation::Kind::all_reduce, "gradient bucket " + std::to_string(s), {}, {ops::zeros(shape)}};
      const auto number = recorder.start(group, s, operation, start_ + milliseconds(100 * s));
      recorder.set_running(number, start_ + milliseconds(100 * s));
      if (s <= done) recorder.end(number, false, start_ + milliseconds(100 * s + 50));
    }
  }
  void damage(int rank, std::streamoff place, const std::string& bytes) {
    std::fstream file(folder_ / ("rank-" + std::to_string(rank)), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(place);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  // Changes a rank's record as if its host were a different one, whose clock is `ahead` of this host's.
  void move_to_host(int rank, const std::string& host, std::chrono::nanoseconds ahead) {
    std::ifstream file(folder_ / ("rank-" + std::to_string(rank)), std::ios::binary);
    FlightHeader header;
    ASSERT_TRUE(file.read(reinterpret_cast<char*>(&header), sizeof header));
    const auto made = header.made_utc + ahead.count();
    damage(rank, offsetof(FlightHeader, made_utc), std::string(reinterpret_cast<const char*>(&made), sizeof made));
    damage(rank, offsetof(FlightHeader, host), host + '\0');
  }
  void expect(const std::vector<std::string>& parts) { expect(explain_flight(folder_.path()), parts); }
  void expect(const std::string& text, const std::vector<std::string>& parts) {
    std::size_t place = 0;
    for (const auto& part : parts) {
      place = text.find(part, place);
      ASSERT_NE(place, std::string::npos) << part << " is missing in:\n" << text;
    }
  }

  const TemporaryFolder folder_;
  const steady_clock::time_point start_ = steady_clock::now();
};

TEST_F(FlightExplanation, names_the_rank_that_is_behind_and_what_the_others_wait_for) {
  record(0, 4, 5);
  record(1, 3, 0);
  record(2, 4, 5);
  expect({"rank 1 (", "is behind in group 'gloo of ranks 0-2': it finished number 3, all_reduce 'gradient bucket 3'",
          "has called nothing since", "\nranks 0 and 2 waited in number 5, all_reduce 'gradient bucket 5'", "f32 (4)",
          "\nrank 1 ", "\nThe last collectives", "rank 0", ">", "in number 5 for", "rank 1", "rank 2"});
}

TEST_F(FlightExplanation, a_full_ring_does_not_confuse_it) {
  record(0, 40, 41);
  record(1, 25, 26);  // the others' records contain none of its collectives
  record(2, 40, 41);
  expect({"rank 1 (", "it has been in number 26", "ranks 0 and 2 waited in number 41"});
}

TEST_F(FlightExplanation, says_which_operations_differ) {
  record(0, 2, 3);
  record(1, 2, 3, "one", {5});
  record(2, 2, 3);
  expect({"the ranks do not run the same operations: number 1 is all_reduce 'gradient bucket 1'", "f32 (4)", "rank 0",
          "f32 (5)", "rank 1"});
}

TEST_F(FlightExplanation, nobody_is_behind) {
  for (int r = 0; r < 3; ++r) record(r, 3, 0);
  expect({"no rank is behind in group 'gloo of ranks 0-2': all finished number 3", "no rank waits"});
  for (int r = 0; r < 3; ++r) record(r, 3, 4);
  expect({"no rank is behind", "reached number 4, and 3 are in it"});
}

TEST_F(FlightExplanation, works_with_what_is_there_and_says_what_is_not) {
  record(0, 4, 5);
  record(1, 3, 0);
  record(2, 4, 5);
  fs::remove(folder_ / "rank-2");
  expect({"rank 1 (", "is behind", "there is no file for rank 2 of 3"});
  record(2, 4, 5, "an older one");
  record(0, 4, 5);
  record(1, 3, 0);
  expect({"rank 1 (", "is behind", "the file of rank 2 is from another generation"});
  record(2, 4, 5);
  damage(2, 0, "?");
  expect({"rank 1 (", "is behind", "rank-2 is not a flight record", "there is no file for rank 2"});
  record(2, 4, 5);
  damage(2, 8, std::string("\7\0\0\0", 4));
  expect({"rank-2 has version 7 of the format"});
  record(2, 4, 5);
  damage(2, static_cast<std::streamoff>(sizeof(FlightHeader) + offsetof(FlightEntry, kind)), "\xff");
  expect({"rank-2 is damaged: entry 0 is invalid"});
  record(2, 4, 5);
  fs::resize_file(folder_ / "rank-2", sizeof(FlightHeader) + 100);
  expect({"rank-2 is truncated after 0 of 10 entries"});
  fs::resize_file(folder_ / "rank-2", 10);
  expect({"rank-2 is too short"});
  record(2, 4, 5);
  damage(2, static_cast<std::streamoff>(sizeof(FlightHeader) + 4 * sizeof(FlightEntry)), std::string(8, '\0'));
  expect({"rank 2 ended while it wrote 1 of its entries"});
  fs::remove(folder_ / "rank-2");
  ASSERT_EQ(mkfifo((folder_ / "rank-2").c_str(), 0600), 0);  // no process writes to it
  expect({"rank-2 is not a regular file"});
}

TEST_F(FlightExplanation, brings_the_clocks_of_hosts_together) {
  for (int r = 0; r < 3; ++r) record(r, 4, 0);
  EXPECT_EQ(explain_flight(folder_.path()).find("clock"), std::string::npos);
  move_to_host(1, "far", milliseconds(-3));
  expect({"no rank waits", "the clocks of the hosts agree to within 0.053 s\n"});
  move_to_host(1, "far", milliseconds(5003));
  move_to_host(2, "late", std::chrono::hours(-2));
  const auto text = explain_flight(folder_.path());
  expect(text, {"no rank waits", ", as the others did", "the clock of host far is 5.000 s ahead of that of host ",
                "(to within 0.050 s)", "the clock of host late is 7200.000 s behind that of host "});
  // All of it took place within a second.
  expect(text, {"The last collectives of group 'gloo of ranks 0-2', numbers 1 to 4", " and cover 0.4", " s:"});
}

TEST_F(FlightExplanation, says_that_clocks_are_compared_as_they_are) {
  record(0, 4, 0);
  record(1, 0, 0);
  record(2, 0, 1);
  move_to_host(1, "far", milliseconds(0));
  move_to_host(2, "late", milliseconds(0));
  expect({"the clocks of far, late and ", " are compared as they are"});
}

TEST_F(FlightExplanation, finds_the_newest_records_below_a_folder) {
  record(0, 1, 2);
  const TemporaryFolder logs;
  for (const std::string attempt : {"attempt_0", "attempt_1"}) {
    fs::create_directories(logs / attempt / "flight");
    fs::copy(folder_ / "rank-0", logs / attempt / "flight/rank-0");
  }
  fs::last_write_time(logs / "attempt_0/flight/rank-0", fs::file_time_type::clock::now() - std::chrono::hours(1));
  expect(explain_flight(logs.path()), {"rank 0", "reading the records in", "attempt_1"});
}

TEST_F(FlightExplanation, without_records_it_says_what_it_looked_for) {
  for (const auto& [folder, part] : std::vector<std::pair<fs::path, std::string>>{
           {folder_.path(), "flight records (files rank-0, rank-1, ...)"}, {folder_ / "none", "no such folder"}}) {
    try {
      explain_flight(folder);
      ADD_FAILURE() << folder;
    } catch (const Error& error) {
      expect(error.what(), {part});
    }
  }
}

// Three ranks have groups, and one rank does not reach the second collective.
TEST_F(FlightExplanation, real_groups_record_what_they_do) {
  TcpStoreServer server({});
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto recorder = std::make_shared<FlightRecorder>(
          FlightRecorder::Options{.folder = folder_.path(), .rank = rank, .world_size = 3, .job = "real"});
      const auto group = host_group(std::make_shared<TcpStore>(TcpStore::Options{.port = server.port()}),
                                    {.rank = rank,
                                     .size = 3,
                                     .timeout = milliseconds(1500),
                                     .backend = GroupBackend::gloo,
                                     .observers = usual_observers(recorder)});
      group->all_reduce(ops::ones({7}), ReduceOp::sum, "both")->wait();
      const auto pair = group->subgroup({0, 2});
      if (pair) pair->broadcast(ops::ones({2}), 0, "between two")->wait();
      if (rank == 1) return std::this_thread::sleep_for(milliseconds(2500));
      EXPECT_THROW(group->all_reduce(ops::ones({9}), ReduceOp::sum, "the second")->wait(), PeerError);
    });
  }
  for (auto& rank : ranks) rank.join();
  expect({"rank 1 (", "is behind in group 'gloo of ranks 0-2': it finished number 1, all_reduce 'both'",
          "ranks 0 and 2 waited in number 2, all_reduce 'the second' (all_reduce(sum) of f32 (9))",
          "rank 0 said: rank 1", "failed, in number 2"});
}

}  // namespace
}  // namespace tandem::distributed
