// Kills and stops ranks of tests/programs/elastic_worker.cpp, under the built tandemrun.
#include <tandem/data/sampler.h>
#include <tandem/distributed/elastic/elastic_training.h>  // a build without this annex has no such tests

#include <gtest/gtest.h>
#include <signal.h>
#include <support/process.h>
#include <support/running_process.h>
#include <support/temporary_folder.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace tandem {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

struct Step {
  std::vector<std::int64_t> samples;
  std::int64_t epoch = -1;  // -1: the process has not done it
  int size = 0;
  double time = 0;
};
// What a process has written.
struct Process {
  int rank = 0;  // the launcher's
  std::map<std::int64_t, Step> steps;
  int tries = 0;
  std::string hash;  // empty: it did not reach the end
  bool is_lead = false;
};

std::vector<Process> processes_of(const fs::path& folder) {
  std::vector<Process> processes;
  for (const auto& entry : fs::directory_iterator(folder)) {
    Process process;
    process.rank = std::stoi(entry.path().filename());
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string kind;
      std::int64_t number = 0;
      words >> kind;
      if (kind == "end") {
        words >> process.hash >> process.is_lead;
        continue;
      }
      words >> number;
      auto& step = process.steps[number];
      if (kind == "done") {
        words >> step.epoch >> step.time;
        continue;
      }
      int rank = 0;
      words >> rank >> step.size;
      step.samples.clear();
      for (std::int64_t sample = 0; words >> sample;) step.samples.push_back(sample);
      ++process.tries;
    }
    processes.push_back(std::move(process));
  }
  return processes;
}

struct Job {
  testing::Outcome outcome;
  std::vector<Process> processes;

  std::vector<const Process*> ended() const {
    std::vector<const Process*> result;
    for (const auto& process : processes)
      if (!process.hash.empty()) result.push_back(&process);
    return result;
  }
  // The longest time between two steps of a process that ended.
  double longest_gap() const {
    double longest = 0;
    for (const auto* process : ended()) {
      const Step* before = nullptr;
      for (const auto& [number, step] : process->steps) {
        if (before) longest = std::max(longest, step.time - before->time);
        before = &step;
      }
    }
    return longest;
  }
};

using Words = std::vector<std::string>;

Words command(int ranks, int restarts, const Words& arguments, const fs::path& folder, bool is_elastic = true) {
  Words words = {TANDEM_PROGRAM_DIR "/tandemrun", "--nproc-per-node", std::to_string(ranks), "--max-restarts",
                 std::to_string(restarts)};
  if (is_elastic) words.push_back("--elastic");
  words.insert(words.end(), {TANDEM_PROGRAM_DIR "/elastic_worker", "log=" + folder.string()});
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

Job run(int ranks, int restarts, const Words& arguments, bool is_elastic = true) {
  const TemporaryFolder folder;
  Job job;
  job.outcome =
      testing::run_process(command(ranks, restarts, arguments, folder.path(), is_elastic), {{"OMP_NUM_THREADS", "1"}});
  job.processes = processes_of(folder.path());
  return job;
}

// Each sample is in exactly one step of each epoch. A process that dies may do its last step without saying so.
void expect_each_sample_once(const Job& job, std::int64_t samples, std::int64_t epochs) {
  std::map<std::int64_t, std::int64_t> epoch_of;  // by step
  for (const auto& process : job.processes)
    for (const auto& [number, step] : process.steps)
      if (step.epoch >= 0) epoch_of[number] = step.epoch;
  std::vector<std::set<std::int64_t>> done(static_cast<std::size_t>(epochs)), perhaps = done;
  for (const auto& process : job.processes) {
    for (const auto& [number, step] : process.steps) {
      ASSERT_TRUE(epoch_of.contains(number)) << "no process has done step " << number;
      const auto epoch = static_cast<std::size_t>(epoch_of[number]);
      for (const auto sample : step.samples) {
        if (step.epoch < 0) perhaps[epoch].insert(sample);
        else EXPECT_TRUE(done[epoch].insert(sample).second) << "sample " << sample << " twice in epoch " << epoch;
      }
    }
  }
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    const auto e = static_cast<std::size_t>(epoch);
    for (std::int64_t sample = 0; sample < samples; ++sample)
      EXPECT_TRUE(done[e].contains(sample) || perhaps[e].contains(sample))
          << "sample " << sample << " is not in epoch " << epoch;
  }
}

void expect_success(const Job& job, std::size_t ended, std::int64_t samples = 48, std::int64_t epochs = 2) {
  EXPECT_EQ(job.outcome.code, 0) << job.outcome.err;
  EXPECT_EQ(job.ended().size(), ended) << job.outcome.err;
  int leads = 0;
  for (const auto* process : job.ended()) {
    EXPECT_EQ(process->hash, job.ended().front()->hash) << job.outcome.err;
    leads += process->is_lead;
  }
  EXPECT_EQ(leads, 1);
  expect_each_sample_once(job, samples, epochs);
  if (::testing::Test::HasFailure()) std::fprintf(stderr, "%s\n", job.outcome.err.c_str());
}

TEST(ElasticTraining, without_a_failure_gives_the_weights_of_ddp) {
  for (const int ranks : {1, 3}) {
    for (const std::string norm : {"norm=0", "norm=1"}) {
      const auto elastic = run(ranks, 0, {norm});
      expect_success(elastic, static_cast<std::size_t>(ranks));
      const auto plain = run(ranks, 0, {norm, "plain=1"}, false);
      ASSERT_EQ(plain.outcome.code, 0) << plain.outcome.err;
      EXPECT_EQ(elastic.ended().at(0)->hash, plain.ended().at(0)->hash) << ranks << " ranks, " << norm;
      EXPECT_EQ(elastic.outcome.err.find("generation"), std::string::npos) << elastic.outcome.err;
    }
  }
}

TEST(ElasticTraining, runs_alone_without_a_launcher) {
  const TemporaryFolder folder;
  Job job;
  job.outcome = testing::run_process({TANDEM_PROGRAM_DIR "/elastic_worker", "log=" + folder.path().string()},
                                     {{"OMP_NUM_THREADS", "1"}, {"RANK", ""}, {"WORLD_SIZE", ""}});
  job.processes = processes_of(folder.path());
  expect_success(job, 1);
}

struct Fault {
  std::string point;
  int rank;
  std::string backend;
};
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.point << " of rank " << fault.rank; }

class ElasticFault : public ::testing::TestWithParam<Fault> {};

TEST_P(ElasticFault, the_others_continue_at_once) {
  const auto& [point, rank, backend] = GetParam();
  const auto job =
      run(3, 0,
          {"fault=kill", "at=" + point, "rank=" + std::to_string(rank), "backend=" + backend, "timeout=20", "norm=1"});
  expect_success(job, 2);
  EXPECT_NE(job.outcome.err.find("tandemrun: rank " + std::to_string(rank)), std::string::npos) << job.outcome.err;
  EXPECT_NE(job.outcome.err.find("killed by SIGKILL"), std::string::npos) << job.outcome.err;
  EXPECT_NE(job.outcome.err.find("continues after step"), std::string::npos) << job.outcome.err;
  std::printf("killed in %s: %.3f s between two steps\n", point.c_str(), job.longest_gap());
  EXPECT_LT(job.longest_gap(), 5);  // far below the timeout of 20 s
}

INSTANTIATE_TEST_SUITE_P(Kill, ElasticFault,
                         ::testing::Values(Fault{"body", 1, ""}, Fault{"body", 0, ""}, Fault{"averaged", 1, ""},
                                           Fault{"averaged", 0, ""}, Fault{"done", 0, ""}, Fault{"done", 2, ""},
                                           Fault{"body", 1, "gloo"}, Fault{"averaged", 0, "gloo"}),
                         [](const auto& info) {
                           return info.param.point + std::to_string(info.param.rank) + info.param.backend;
                         });

// One rank has averaged the gradients, and fails before it updates the weights. The others have done the step.
TEST(ElasticTraining, a_rank_that_is_a_step_behind_gets_the_weights_of_the_others) {
  for (const std::string rank : {"0", "2"}) {
    const auto job = run(3, 0, {"fault=peer", "at=averaged", "rank=" + rank, "norm=1"});
    expect_success(job, 3);
    int behind = 0;
    for (const auto& process : job.processes) {
      const auto step = process.steps.find(3);
      ASSERT_NE(step, process.steps.end());
      behind += step->second.epoch < 0;
    }
    EXPECT_EQ(behind, 1);
  }
}

TEST(ElasticTraining, a_newcomer_gets_the_state_and_takes_part) {
  for (const std::string rank : {"0", "1"}) {
    const auto job =
        run(3, 1, {"fault=kill", "at=body", "rank=" + rank, "crowd=3", "epochs=4", "samples=50", "norm=1"});
    expect_success(job, 3, 50, 4);
    EXPECT_EQ(job.processes.size(), 4u);
    EXPECT_NE(job.outcome.err.find("it starts again: restart 1 of 1"), std::string::npos) << job.outcome.err;
    EXPECT_NE(job.outcome.err.find("; new: " + rank + "-"), std::string::npos) << job.outcome.err;
  }
}

TEST(ElasticTraining, ranks_may_die_while_they_join) {
  // A member dies when the next generation begins, which it does because another has died.
  for (const std::string point : {"joining", "sharing"}) {
    for (const std::string rank : {"0", "1", "2"}) {
      // The first fault is a PeerError of the same rank: all ranks join the next generation.
      const auto job = run(4, 0, {"fault=kill", "at=" + point, "rank=" + rank, "step=2", "trigger=2"});
      expect_success(job, 3);
      EXPECT_LT(job.longest_gap(), 5);
    }
    // A newcomer dies while it joins. The second newcomer succeeds.
    const auto job =
        run(3, 2, {"fault=kill", "at=" + point, "rank=1", "restart=1", "step=0", "trigger=2", "crowd=3", "epochs=4"});
    expect_success(job, 3, 48, 4);
    EXPECT_LT(job.longest_gap(), 5);
  }
}

TEST(ElasticTraining, survives_kills_at_random_moments) {
  std::mt19937 random(5);
  for (int round = 0; round < 3; ++round) {
    const TemporaryFolder folder;
    testing::RunningProcess launcher(command(4, 20, {"pause=5", "epochs=60", "samples=97", "batch=3"}, folder.path()),
                                     {{"OMP_NUM_THREADS", "1"}});
    for (int kills = 0; kills < 5; ++kills) {
      std::this_thread::sleep_for(std::chrono::milliseconds(150 + random() % 250));
      std::vector<pid_t> alive;
      for (const auto& entry : fs::directory_iterator(folder.path())) {
        const std::string name = entry.path().filename();
        const auto pid = std::stoi(name.substr(name.find('-') + 1));
        std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
        std::string word, state;
        if (file >> word >> word >> state && state != "Z") alive.push_back(pid);
      }
      // With one process, the weights would be lost.
      if (alive.size() > 2) kill(alive[random() % alive.size()], SIGKILL);
    }
    Job job;
    job.outcome.code = launcher.finish(std::chrono::seconds(100));
    job.outcome.err = launcher.err();
    job.processes = processes_of(folder.path());
    std::printf("%zu processes, %.3f s between two steps at most\n", job.processes.size(), job.longest_gap());
    expect_success(job, job.ended().size(), 97, 60);
    EXPECT_GE(job.ended().size(), 2u);
    EXPECT_LT(job.longest_gap(), 5);
  }
}

TEST(ElasticTraining, leaves_out_a_stopped_rank_within_the_timeout) {
  const auto job = run(3, 0, {"fault=stop", "at=body", "rank=2", "timeout=4"});
  expect_success(job, 2);
  std::printf("stopped: %.3f s between two steps\n", job.longest_gap());
  EXPECT_GE(job.longest_gap(), 2);
  EXPECT_LT(job.longest_gap(), 8);
}

TEST(ElasticTraining, a_stopped_rank_that_resumes_starts_again_or_ends) {
  const TemporaryFolder folder;
  testing::RunningProcess launcher(
      command(3, 1, {"fault=stop", "at=body", "rank=2", "timeout=2", "pause=20", "epochs=1000"}, folder.path()),
      {{"OMP_NUM_THREADS", "1"}});
  ASSERT_TRUE(testing::eventually([&] { return launcher.err().find("gone: 2-") != std::string::npos; }))
      << launcher.err();
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    const std::string name = entry.path().filename();
    if (name.starts_with("2-")) kill(std::stoi(name.substr(2)), SIGCONT);
  }
  EXPECT_TRUE(testing::eventually([&] { return launcher.err().find("; new: 2-") != std::string::npos; }))
      << launcher.err();
  EXPECT_NE(launcher.err().find("began without this process"), std::string::npos) << launcher.err();
  launcher.send(SIGTERM);
  launcher.finish();
}

TEST(ElasticTraining, leaves_out_a_rank_that_stops_while_a_group_forms) {
  for (const std::string at : {"forming1", "forming2"}) {
    const auto job = run(3, 0, {"fault=stop", "at=" + at, "rank=1", "step=0", "trigger=2", "timeout=2"});
    expect_success(job, 2);
    EXPECT_EQ(job.outcome.err.find("failed"), std::string::npos) << job.outcome.err;
  }
}

// The others may end the training just when this process notices that the members have changed.
TEST(ElasticTraining, the_lead_stays_the_lead_if_it_notices_the_end_late) {
  const auto job = run(1, 0, {"fault=end", "at=body", "rank=0"});
  EXPECT_EQ(job.outcome.code, 0) << job.outcome.err;
  ASSERT_EQ(job.ended().size(), 1u) << job.outcome.err;
  EXPECT_TRUE(job.ended().front()->is_lead);
}

TEST(ElasticTraining, an_error_ends_only_its_own_rank) {
  const auto job = run(3, 0, {"fault=error", "at=body", "rank=0"});
  expect_success(job, 2);
  EXPECT_NE(job.outcome.err.find("elastic_worker: injected"), std::string::npos) << job.outcome.err;
  EXPECT_NE(job.outcome.err.find("failed: exit code 1; the others continue without it"), std::string::npos)
      << job.outcome.err;
}

TEST(ElasticTraining, needs_its_minimum_of_ranks) {
  const auto job = run(3, 0, {"fault=kill", "at=body", "rank=2", "min=3", "timeout=3"});
  EXPECT_EQ(job.outcome.code, 128 + SIGKILL) << job.outcome.err;
  EXPECT_LT(job.outcome.seconds, 20);
  testing::expect_parts(job.outcome.err,
                        {"the training needs at least 3 processes (min_ranks), and has 2: no other process came",
                         "rank 2 failed first: killed by SIGKILL"});
}

TEST(ElasticTraining, fails_when_all_ranks_with_weights_are_gone) {
  const auto job = run(1, 3, {"fault=kill", "at=body", "rank=0"});
  EXPECT_EQ(job.outcome.code, 128 + SIGKILL) << job.outcome.err;
  EXPECT_NE(job.outcome.err.find("rank 0 failed first"), std::string::npos) << job.outcome.err;
}

TEST(ElasticTraining, deals_uneven_epochs) {
  for (const std::string samples : {"1", "2", "5", "49", "51"}) {
    const auto job = run(3, 0, {"samples=" + samples, "batch=4", "norm=1"});
    expect_success(job, 3, std::stoll(samples), 2);
    for (const auto& process : job.processes) {
      for (const auto& [number, step] : process.steps)
        EXPECT_TRUE(step.samples.size() != 1 || samples == "1") << samples << " samples, step " << number;
    }
  }
}

TEST(ElasticTraining, refuses_what_does_not_work) {
  const auto plain = run(2, 0, {}, false);
  EXPECT_EQ(plain.outcome.code, 2) << plain.outcome.err;
  EXPECT_NE(plain.outcome.err.find("start it with tandemrun --elastic"), std::string::npos) << plain.outcome.err;
  const auto fixed = run(2, 3, {"plain=1"});
  EXPECT_EQ(fixed.outcome.code, 2) << fixed.outcome.err;
  EXPECT_NE(fixed.outcome.err.find("start it without --elastic"), std::string::npos) << fixed.outcome.err;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"samples=0", "samples = 0"},
      {"min=0", "min_ranks = 0"},
      {"timeout=0", "timeout = 0 ms"},
      {"backend=nccl", "the backend nccl can't lose a rank"}};
  for (const auto& [argument, message] : cases) {
    const auto job = run(1, 0, {argument});
    EXPECT_EQ(job.outcome.code, 1) << job.outcome.err;
    EXPECT_NE(job.outcome.err.find(message), std::string::npos) << job.outcome.err;
  }
  const auto nodes = testing::run_process({TANDEM_PROGRAM_DIR "/tandemrun", "--elastic", "--nnodes", "2",
                                           "--master-addr", "127.0.0.1", TANDEM_PROGRAM_DIR "/elastic_worker"});
  EXPECT_EQ(nodes.code, 2) << nodes.err;
  EXPECT_NE(nodes.err.find("--elastic: an elastic job runs on one host"), std::string::npos) << nodes.err;
}

}  // namespace
}  // namespace tandem
