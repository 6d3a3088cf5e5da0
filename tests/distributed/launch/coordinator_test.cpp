// Tests the decisions for several nodes, without processes, sockets or waiting.
#include <tandem/distributed/launch/coordinator.h>
#include <tandem/distributed/launch/node_messages.h>

#include <gtest/gtest.h>
#include <support/temporary_folder.h>

#include <signal.h>

#include <chrono>
#include <string>
#include <vector>

namespace tandem::distributed {
namespace {

using namespace std::chrono_literals;
using testing::expect_parts;
using State = NodeStatus::State;
using Action = JobAssignment::Action;

class CoordinatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.min_nodes = options_.max_nodes = 2;
    options_.join_timeout = 60s;
    options_.last_call = 10s;
    options_.silence_allowed = 15s;
  }
  void make_elastic(int min, int max) {
    options_.min_nodes = min;
    options_.max_nodes = max;
  }
  void make_static() { options_.node_rank = 0; }

  // A node that has just joined.
  NodeStatus& add(int node_rank = -1, int processes = 2) {
    NodeStatus node;
    node.id = static_cast<int>(nodes_.size());
    node.node_rank = node_rank;
    node.host = "host" + std::to_string(node.id);
    node.processes = processes;
    node.role = "default";
    node.max_nodes = options_.max_nodes;
    node.serves_store = node.id == 0;
    nodes_.push_back(node);
    return nodes_.back();
  }
  const JobAssignment& decide(std::chrono::seconds later = 0s) {
    now_ += later;
    if (!coordinator_) coordinator_.emplace(options_, now_);
    return coordinator_->decide(nodes_, now_);
  }
  // Changes the state of all nodes, as their launchers do on request.
  void all(State state) {
    const int generation = decide().generation;
    for (auto& node : nodes_) {
      if (node.state == State::left || node.silence > options_.silence_allowed) continue;
      if (state != State::waiting && decide().node_of(node.id) < 0) continue;
      node.state = state;
      if (state == State::running) {
        node.generation = generation;
        node.has_failed = false;
        node.failures.clear();
      }
    }
  }
  // Node 0 runs a job with ranks 0 and 1. Node 1 joins it, with the new ranks 2 and 3.
  void run_with_a_newcomer() {
    make_elastic(1, 3);
    add();
    decide();
    decide(10s);
    all(State::running);
    add();
    all(State::ended);
    all(State::waiting);
    ASSERT_EQ(decide(10s).nodes.size(), 2u);
    all(State::running);
  }
  static void fail(NodeStatus& node, int rank, int code) {
    node.has_failed = true;
    WorkerFailure failure;
    failure.rank = rank;
    failure.host = node.host;
    failure.end.status = code;
    failure.time = std::chrono::system_clock::time_point(std::chrono::seconds(1000 + code));
    node.failures = {failure};
  }

  LaunchOptions options_;
  std::vector<NodeStatus> nodes_;
  Coordinator::Time now_{};
  std::optional<Coordinator> coordinator_;
};

TEST_F(CoordinatorTest, StaticNodesAreNumberedAsAsked) {
  make_static();
  add(1, 3);
  EXPECT_EQ(decide(5s).action, Action::gather);
  add(0, 2);
  const auto& assignment = decide();
  EXPECT_EQ(assignment.action, Action::run);
  EXPECT_EQ(assignment.world_size(), 5);
  EXPECT_EQ(assignment.node_of(1), 0);
  EXPECT_EQ(assignment.node_of(0), 1);
  EXPECT_EQ(assignment.nodes[1].first_rank, 2);
  EXPECT_EQ(assignment.node_of(7), -1);
}

TEST_F(CoordinatorTest, TwoNodesWithOneNumberAreAnError) {
  make_static();
  add(1);
  add(1);
  EXPECT_EQ(decide().action, Action::failed);
  expect_parts(decide().reason, {"host0", "host1", "--node-rank 1"});
}

TEST_F(CoordinatorTest, ALauncherThatDiedAndCameBackIsNotTwo) {
  make_static();
  add(0);
  add(1).silence = 5s;
  add(1);
  EXPECT_EQ(decide().action, Action::gather);
  nodes_[1].silence = 20s;
  EXPECT_EQ(decide().action, Action::run);
  EXPECT_EQ(decide().node_of(2), 1);
}

TEST_F(CoordinatorTest, NodesThatDisagreeAboutTheirNumberAreAnError) {
  add();
  add().max_nodes = 3;
  EXPECT_EQ(decide().action, Action::failed);
  expect_parts(decide().reason, {"host1", "--nnodes 3", "with 2"});
}

TEST_F(CoordinatorTest, TheServingNodeIsTheFirst) {
  add().serves_store = false;
  add().serves_store = true;
  EXPECT_EQ(decide().node_of(1), 0);
}

TEST_F(CoordinatorTest, RolesAreCountedApart) {
  add(-1, 2).role = "actor";
  add(-1, 3).role = "learner";
  EXPECT_EQ(decide().nodes[1].first_rank, 2);
  EXPECT_EQ(decide().nodes[1].first_role_rank, 0);
  EXPECT_EQ(decide().nodes[1].role_size, 3);
}

TEST_F(CoordinatorTest, MoreThanTheMinimumAreWaitedForALastCall) {
  make_elastic(2, 4);
  add();
  EXPECT_EQ(decide(50s).action, Action::gather);
  add();
  EXPECT_EQ(decide().action, Action::gather);
  EXPECT_EQ(decide(9s).action, Action::gather);
  add();
  EXPECT_EQ(decide(1s).action, Action::run);
  EXPECT_EQ(decide().nodes.size(), 3u);
}

TEST_F(CoordinatorTest, TheMaximumIsNotWaitedWith) {
  make_elastic(1, 2);
  add();
  add();
  add();
  EXPECT_EQ(decide().action, Action::run);
  EXPECT_EQ(decide().nodes.size(), 2u);
  EXPECT_EQ(decide().node_of(2), -1);
}

TEST_F(CoordinatorTest, TooFewNodesGiveUp) {
  add();
  EXPECT_EQ(decide(59s).action, Action::gather);
  EXPECT_EQ(decide(1s).action, Action::gather);  // the wait began with the first decision
  EXPECT_EQ(decide(59s).action, Action::failed);
  expect_parts(decide().reason, {"60 s", "1 of 2 nodes", "host0"});
  EXPECT_EQ(decide().exit_code, 1);
}

TEST_F(CoordinatorTest, DoneWhenAllNodesAre) {
  add();
  add();
  decide();
  all(State::running);
  nodes_[0].state = State::ended;
  EXPECT_EQ(decide().action, Action::run);
  nodes_[1].state = State::ended;
  EXPECT_EQ(decide().action, Action::done);
}

TEST_F(CoordinatorTest, AFailureStopsAllAndTheEarliestIsTheCause) {
  add();
  add();
  decide();
  all(State::running);
  nodes_[1].has_failed = true;
  EXPECT_EQ(decide().action, Action::stop);
  fail(nodes_[0], 0, 5);
  fail(nodes_[1], 3, 4);
  nodes_[1].state = State::ended;
  EXPECT_EQ(decide().action, Action::stop);
  nodes_[0].state = State::ended;
  EXPECT_EQ(decide().action, Action::failed);
  EXPECT_EQ(decide().exit_code, 4);
  ASSERT_EQ(decide().failures.size(), 2u);
  EXPECT_EQ(decide().failures[0].rank, 3);
  EXPECT_EQ(decide().failures[0].host, "host1");
}

TEST_F(CoordinatorTest, RestartsUnderANewGenerationAsOftenAsAllowed) {
  options_.max_restarts = 2;
  make_static();
  add(0);
  add(1);
  for (int generation = 0; generation < 3; ++generation) {
    ASSERT_EQ(decide().action, Action::run);
    EXPECT_EQ(decide().generation, generation);
    EXPECT_EQ(decide().restarts, generation);
    all(State::running);
    fail(nodes_[1], 2, 9);
    ASSERT_EQ(decide().action, Action::stop);
    all(State::ended);
    if (generation == 2) break;
    ASSERT_EQ(decide().action, Action::gather);
    EXPECT_EQ(decide().failures.at(0).rank, 2);
    nodes_[0].state = State::waiting;
    ASSERT_EQ(decide().action, Action::gather);
    nodes_[1].state = State::waiting;
  }
  EXPECT_EQ(decide().action, Action::failed);
  EXPECT_EQ(decide().exit_code, 9);
}

// The command line would be just as wrong after a restart.
TEST_F(CoordinatorTest, AWrongCommandLineIsNotStartedAgain) {
  options_.max_restarts = 2;
  make_static();
  add(0);
  add(1);
  decide();
  all(State::running);
  fail(nodes_[1], 2, 2);
  ASSERT_EQ(decide().action, Action::stop);
  all(State::ended);
  EXPECT_EQ(decide().action, Action::failed);
  EXPECT_EQ(decide().exit_code, 2);
  EXPECT_EQ(decide().reason, "no restart: exit code 2 means a wrong command line");
}

TEST_F(CoordinatorTest, WithoutALostNodeElasticJobsGoOnIfEnoughAreLeft) {
  make_elastic(2, 3);
  options_.max_restarts = 1;
  add();
  add();
  add();
  decide();
  all(State::running);
  nodes_[2].silence = 16s;
  ASSERT_EQ(decide().action, Action::stop);
  all(State::ended);
  ASSERT_EQ(decide().action, Action::gather);
  expect_parts(decide().reason, {"host2", "15 s"});
  all(State::waiting);
  EXPECT_EQ(decide().action, Action::gather);  // the lost node may still come back
  EXPECT_EQ(decide(10s).action, Action::run);
  EXPECT_EQ(decide().nodes.size(), 2u);
}

TEST_F(CoordinatorTest, AllBackNeedNoLastCall) {
  make_elastic(1, 3);
  options_.max_restarts = 1;
  add();
  add();
  decide();
  decide(10s);
  all(State::running);
  fail(nodes_[0], 0, 1);
  ASSERT_EQ(decide().action, Action::stop);
  all(State::ended);
  ASSERT_EQ(decide().action, Action::gather);
  all(State::waiting);
  EXPECT_EQ(decide().action, Action::run);
}

TEST_F(CoordinatorTest, ANewNodeIsTakenInWithoutCountingARestart) {
  make_elastic(1, 2);
  add();
  decide();
  decide(10s);
  all(State::running);
  ASSERT_EQ(decide().action, Action::run);
  add();
  ASSERT_EQ(decide().action, Action::stop);
  all(State::ended);
  ASSERT_EQ(decide().action, Action::gather);
  expect_parts(decide().reason, {"host1", "joined"});
  all(State::waiting);
  ASSERT_EQ(decide().action, Action::run);
  EXPECT_EQ(decide().generation, 1);
  EXPECT_EQ(decide().restarts, 0);
  EXPECT_EQ(decide().nodes.size(), 2u);
}

// The job ran well without the new node, so the failure of that node must not end it.
TEST_F(CoordinatorTest, ANewNodeWithAWrongCommandLineEndsNothing) {
  ASSERT_NO_FATAL_FAILURE(run_with_a_newcomer());
  fail(nodes_[1], 2, 2);
  ASSERT_EQ(decide().action, Action::stop);
  all(State::ended);
  ASSERT_EQ(decide().action, Action::gather);
  EXPECT_EQ(decide().refused, std::vector{1});
  expect_parts(decide().reason, {"host1", "exit code 2", "the other nodes continue without it"});
  // The node is never admitted again, whether its launcher leaves or not.
  all(State::waiting);
  nodes_[1].state = State::left;
  ASSERT_EQ(decide().action, Action::run);
  EXPECT_EQ(decide().restarts, 0);
  ASSERT_EQ(decide().nodes.size(), 1u);
  all(State::running);
  nodes_[1].state = State::waiting;
  EXPECT_EQ(decide().action, Action::run);
  // If the other nodes have a wrong command line too, the job ends.
  fail(nodes_[0], 0, 2);
  ASSERT_EQ(decide().action, Action::stop);
  all(State::ended);
  EXPECT_EQ(decide().action, Action::failed);
  EXPECT_EQ(decide().exit_code, 2);
}

// A program that has run for minutes has accepted its command line.
TEST_F(CoordinatorTest, ANewNodeThatFailsLaterIsNoWrongCommandLine) {
  ASSERT_NO_FATAL_FAILURE(run_with_a_newcomer());
  decide(2min);
  fail(nodes_[1], 2, 2);
  ASSERT_EQ(decide().action, Action::stop);
  all(State::ended);
  EXPECT_EQ(decide().action, Action::failed);
  EXPECT_TRUE(decide().refused.empty());
}

TEST_F(CoordinatorTest, AStoppedNodeEndsTheJobWithItsSignal) {
  add();
  add();
  decide();
  all(State::running);
  nodes_[1].state = State::left;
  nodes_[1].stopped_by = SIGTERM;
  ASSERT_EQ(decide().action, Action::stop);
  nodes_[0].state = State::ended;
  ASSERT_EQ(decide().action, Action::failed);
  EXPECT_EQ(decide().exit_code, 128 + SIGTERM);
  expect_parts(decide().reason, {"host1", "SIGTERM"});
}

TEST_F(CoordinatorTest, WithoutTheServingNodeNothingGoesOn) {
  options_.max_restarts = 5;
  add();
  add();
  decide();
  all(State::running);
  nodes_[0].state = State::left;
  ASSERT_EQ(decide().action, Action::stop);
  nodes_[1].state = State::ended;
  EXPECT_EQ(decide().action, Action::failed);
}

TEST_F(CoordinatorTest, AStatusThatIsGoneIsAnError) {
  add();
  add();
  all(State::running);
  nodes_.pop_back();
  expect_parts(testing::error_of([&] { decide(); }), {"the status of node 1", "not in the store"});
}

TEST(JobAssignment, GoesThroughTheStoreUnchanged) {
  NodeStatus status;
  status.id = 3;
  status.host = "a";
  status.state = State::ended;
  status.has_failed = true;
  WorkerFailure failure;
  failure.rank = 4;
  failure.end = {false, SIGSEGV, false, {}};
  failure.message = "not UTF-8: \xff";
  failure.last_lines = {"one", "two"};
  failure.hint = "hint";
  failure.time = std::chrono::system_clock::time_point(std::chrono::seconds(5));
  status.failures = {failure};
  const auto read = decode_status(encode(status));
  EXPECT_EQ(read.id, 3);
  EXPECT_EQ(read.state, State::ended);
  ASSERT_EQ(read.failures.size(), 1u);
  EXPECT_EQ(read.failures[0].exit_code(), 128 + SIGSEGV);
  EXPECT_EQ(read.failures[0].last_lines, failure.last_lines);
  EXPECT_EQ(read.failures[0].time, failure.time);
  EXPECT_EQ(read.failures[0].message.substr(0, 11), "not UTF-8: ");

  JobAssignment assignment;
  assignment.action = Action::stop;
  assignment.generation = 2;
  assignment.nodes = {{7, 0, 2, 0, 2}};
  assignment.refused = {3, 5};
  const auto back = decode_assignment(encode(assignment));
  EXPECT_EQ(back.action, Action::stop);
  EXPECT_EQ(back.refused, assignment.refused);
  EXPECT_EQ(back.nodes.at(0).id, 7);
  for (const char* nonsense : {"", "{}", "[1]", "{\"action\":\"x\"}"}) {
    EXPECT_THROW(decode_assignment(nonsense), Error) << nonsense;
    EXPECT_THROW(decode_status(nonsense), Error) << nonsense;
  }
}

// Numbers that no launcher writes. They would be truncated, make a sum overflow, or name no state.
TEST(JobAssignment, ANumberOutOfItsRangeIsAnError) {
  NodeStatus status;
  status.failures.resize(1);
  status.ended_well = {8};
  const auto good = encode(status);
  EXPECT_NO_THROW(decode_status(good));
  for (const auto& [before, after] : std::vector<std::pair<std::string, std::string>>{
           {"\"processes\":0", "\"processes\":4294967298"},
           {"\"processes\":0", "\"processes\":2000000000"},
           {"\"processes\":0", "\"processes\":1e300"},
           {"\"processes\":0", "\"processes\":true"},
           {"\"state\":0", "\"state\":4"},
           {"\"state\":0", "\"state\":-1"},
           {"\"id\":0", "\"id\":-1"},
           {"\"stopped_by\":0", "\"stopped_by\":2147483647"},
           {"\"ended_well\":[8]", "\"ended_well\":[2147483647]"},
           {"\"has_exited\":true", "\"has_exited\":false,\"status\":2147483647"},
           {"\"time_ns\":0", "\"time_ns\":-9223372036854775808"}}) {
    auto text = good;
    const auto at = text.find(before);
    ASSERT_NE(at, text.npos) << before;
    text.replace(at, before.size(), after);
    // If a key occurs twice, the last one counts.
    if (after.find("status") != after.npos) text.erase(text.find(",\"status\":0"), 11);
    EXPECT_THROW(decode_status(text), Error) << after;
  }
  JobAssignment assignment;
  for (int i = 0; i < 20'000; ++i) assignment.nodes.push_back({i, 0, 65'536, 0, 1});
  EXPECT_THROW(decode_assignment(encode(assignment)), Error);
  assignment.nodes.resize(2);
  EXPECT_EQ(decode_assignment(encode(assignment)).world_size(), 131'072);
  assignment.action = static_cast<Action>(5);
  EXPECT_THROW(decode_assignment(encode(assignment)), Error);
}

TEST(WorkerFailure, ClocksOfHostsMayDiffer) {
  const auto at = [](const char* host, bool saw_another, int seconds) {
    WorkerFailure failure;
    failure.host = host;
    failure.saw_another = saw_another;
    failure.message = host;
    failure.time = std::chrono::system_clock::time_point(std::chrono::seconds(seconds));
    return failure;
  };
  std::vector failures = {at("late", false, 100), at("early", true, 90), at("late", false, 99)};
  sort_by_cause(failures);
  EXPECT_EQ(failures[0].time.time_since_epoch(), 99s);
  EXPECT_EQ(failures[2].host, "early");
  failures = {at("one", false, 100), at("one", true, 90)};
  sort_by_cause(failures);
  EXPECT_TRUE(failures[0].saw_another);  // one clock, which tells the order
}

TEST(WorkerFailure, TimesThatTheClockCannotHoldCountAsNone) {
  const testing::TemporaryFolder folder;
  const auto file = (folder / "error.json").string();
  WorkerEnd end;
  end.status = 1;
  end.seen = std::chrono::system_clock::time_point(1000s);
  for (const std::string times : {R"("timestamp":9223372036854775807)", R"("timestamp":"9223372036854775807")",
                                  R"("timestamp":1e300)", R"("timestamp_ns":-1e300)", R"("timestamp":-5)"}) {
    testing::write_bytes(file, R"({"message":{"message":"why","extraInfo":{)" + times + "}}}");
    const auto failure = find_failure(0, 1, end, file);
    ASSERT_TRUE(failure) << times;
    EXPECT_EQ(failure->message, "why");
    EXPECT_EQ(failure->time, end.seen) << times;
  }
}

// A value in the store has at most 8 MiB. In JSON, each control character takes six bytes.
TEST(JobAssignment, FailuresOfManyRanksFitIntoOneValue) {
  for (const bool are_equal : {false, true}) {
    JobAssignment assignment;
    assignment.action = Action::failed;
    const auto bytes_more = std::string("\n(and ") + (are_equal ? "83622" : "83625") + " bytes more)";
    for (int rank = 0; rank < 2000; ++rank) {
      auto& failure = assignment.failures.emplace_back();
      failure.rank = rank;
      failure.message = (are_equal ? "" : std::to_string(rank) + ": ") + "reason" + std::string(100'000, '\1');
      failure.last_lines.assign(10, std::string(10'000, '\2'));
    }
    const auto text = encode(assignment);
    EXPECT_LT(text.size(), std::size_t{8} << 20);
    const auto first = decode_assignment(text);
    const auto back = decode_assignment(encode(first));  // truncated text is not truncated again
    ASSERT_EQ(back.failures.size(), 2000u);
    expect_parts(back.failures[0].message, {"reason", "\1\1", bytes_more});
    EXPECT_GT(back.failures[0].message.size(), 16384u);
    EXPECT_EQ(back.failures[0].last_lines.size(), 10u);
    for (int rank = 0; rank < 2000; ++rank) {
      const auto& message = back.failures[static_cast<std::size_t>(rank)].message;
      EXPECT_EQ(message, first.failures[static_cast<std::size_t>(rank)].message);
      if (are_equal) EXPECT_EQ(message, back.failures[0].message);
      else EXPECT_TRUE(message.starts_with(std::to_string(rank) + ": reason"));
    }
  }
}

}  // namespace
}  // namespace tandem::distributed
