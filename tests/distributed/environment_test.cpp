#include <tandem/core/check.h>
#include <tandem/distributed/environment.h>
#include <tandem/distributed/tcp_store.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

namespace tandem::distributed {
namespace {

using namespace std::chrono_literals;
using Variables = std::map<std::string, std::string>;

Environment read(const Variables& variables) {
  return read_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

const Variables torchrun = {{"RANK", "5"},
                            {"WORLD_SIZE", "8"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "4"},
                            {"GROUP_RANK", "1"},
                            {"GROUP_WORLD_SIZE", "2"},
                            {"MASTER_ADDR", "node0"},
                            {"MASTER_PORT", "29500"},
                            {"TORCHELASTIC_RUN_ID", "run"},
                            {"TORCHELASTIC_RESTART_COUNT", "2"},
                            {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                            {"TANDEM_STORE_TOKEN", "secret"}};

TEST(Environment, NothingSetIsAJobOfOne) {
  const auto environment = read({});
  EXPECT_EQ(environment.rank, 0);
  EXPECT_EQ(environment.world_size, 1);
  EXPECT_EQ(environment.local_world_size, 1);
  EXPECT_TRUE(environment.master_addr.empty());
  EXPECT_EQ(read({{"RANK", ""}, {"MASTER_PORT", "29500"}}).world_size, 1);
}

TEST(Environment, ReadsTorchrunsVariables) {
  const auto environment = read(torchrun);
  EXPECT_EQ(environment.rank, 5);
  EXPECT_EQ(environment.world_size, 8);
  EXPECT_EQ(environment.local_rank, 1);
  EXPECT_EQ(environment.local_world_size, 4);
  EXPECT_EQ(environment.group_rank, 1);
  EXPECT_EQ(environment.group_world_size, 2);
  EXPECT_EQ(environment.master_addr, "node0");
  EXPECT_EQ(environment.master_port, 29500);
  EXPECT_EQ(environment.run_id, "run");
  EXPECT_EQ(environment.restart_count, 2);
  EXPECT_TRUE(environment.uses_agent_store);
  EXPECT_EQ(environment.store_token, "secret");
}

TEST(Environment, TheFourVariablesSetByHandAreEnough) {
  const auto environment =
      read({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "1234"}});
  EXPECT_EQ(environment.rank, 1);
  EXPECT_EQ(environment.local_rank, 0);
  EXPECT_FALSE(environment.uses_agent_store);
}

TEST(Environment, NonsenseIsAnErrorThatNamesTheVariable) {
  const std::pair<const char*, const char*> cases[] = {{"RANK", "8"},
                                                       {"RANK", "-1"},
                                                       {"RANK", "one"},
                                                       {"RANK", "1 "},
                                                       {"RANK", ""},
                                                       {"WORLD_SIZE", ""},
                                                       {"WORLD_SIZE", "0"},
                                                       {"WORLD_SIZE", "99999999999"},
                                                       {"LOCAL_RANK", "4"},
                                                       {"LOCAL_RANK", "x"},
                                                       {"LOCAL_WORLD_SIZE", "9"},
                                                       {"MASTER_PORT", "0"},
                                                       {"MASTER_PORT", "65536"},
                                                       {"MASTER_PORT", ""},
                                                       {"MASTER_ADDR", ""},
                                                       {"GROUP_RANK", "-2"},
                                                       {"TORCHELASTIC_RESTART_COUNT", "x"},
                                                       {"TORCHELASTIC_USE_AGENT_STORE", "yes"}};
  for (const auto& [name, value] : cases) {
    auto variables = torchrun;
    variables[name] = value;
    try {
      read(variables);
      ADD_FAILURE() << name << "=" << value << " was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

TEST(ConnectStore, RankZeroServesWhenNoLauncherDoes) {
  int port;
  {
    TcpStoreServer free_port({});
    port = free_port.port();
  }
  Environment environment;
  environment.world_size = environment.local_world_size = 2;
  environment.master_addr = "127.0.0.1";
  environment.master_port = port;
  environment.store_token = "secret";
  std::thread other([environment]() mutable {
    environment.rank = 1;
    const auto store = connect_store(environment, 10s);
    store->set("from 1", "hello");
    EXPECT_EQ(store->get("from 0"), "good day");
    store->set("done", "");
  });
  const auto store = connect_store(environment, 10s);
  EXPECT_EQ(store->get("from 1"), "hello");
  store->set("from 0", "good day");
  store->wait({"done"});
  other.join();
}

TEST(ConnectStore, KeysOfAnotherAttemptAreNotSeen) {
  TcpStoreServer server({});
  Environment environment;
  environment.master_addr = "127.0.0.1";
  environment.master_port = server.port();
  environment.uses_agent_store = true;
  environment.run_id = "run";
  connect_store(environment, 10s)->compare_set("key", "", "old");
  EXPECT_TRUE(connect_store(environment, 10s)->check({"key"}));
  environment.restart_count = 1;
  EXPECT_FALSE(connect_store(environment, 10s)->check({"key"}));
  environment.run_id = "other";
  environment.restart_count = 0;
  EXPECT_FALSE(connect_store(environment, 10s)->check({"key"}));
}

TEST(ConnectStore, NeedsAnAddress) { EXPECT_THROW(connect_store({}, 10s), Error); }

TEST(ReportFailure, WritesWhatTorchrunReads) {
  const auto path =
      std::filesystem::temp_directory_path() / ("tandem_error_" + std::to_string(getpid()) + ".json");
  setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1);
  report_failure("Error: \"quoted\"\nsecond line \xff");
  unsetenv("TORCHELASTIC_ERROR_FILE");
  report_failure("nobody listens");
  std::ifstream file(path);
  const auto report = nlohmann::json::parse(file);
  EXPECT_EQ(report["message"]["message"].get<std::string>().substr(0, 27), "Error: \"quoted\"\nsecond line");
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  EXPECT_NEAR(std::stod(report["message"]["extraInfo"]["timestamp"].get<std::string>()),
              static_cast<double>(now), 5);
  EXPECT_TRUE(report["message"]["extraInfo"]["py_callstack"].is_string());
  std::filesystem::remove(path);
}

TEST(ReportFailure, AnUnwritableFileIsNoFurtherFailure) {
  setenv("TORCHELASTIC_ERROR_FILE", "/nonexistent/error.json", 1);
  report_failure("message");
  unsetenv("TORCHELASTIC_ERROR_FILE");
  EXPECT_FALSE(std::filesystem::exists("/nonexistent"));
}

}  // namespace
}  // namespace tandem::distributed
