#include <tandem/distributed/job/failure_report.h>
#include <tandem/distributed/job/together.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tandem::distributed {
namespace {

TEST(ReportFailure, WritesWhatTorchrunReads) {
  const auto path = std::filesystem::temp_directory_path() / ("tandem_error_" + std::to_string(getpid()) + ".json");
  setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1);
  report_failure("Error: \"quoted\"\nsecond line \xff");
  unsetenv("TORCHELASTIC_ERROR_FILE");
  report_failure("nobody listens");
  std::ifstream file(path);
  const auto report = nlohmann::json::parse(file);
  EXPECT_EQ(report["message"]["message"].get<std::string>().substr(0, 27), "Error: \"quoted\"\nsecond line");
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  EXPECT_NEAR(std::stod(report["message"]["extraInfo"]["timestamp"].get<std::string>()), static_cast<double>(now), 5);
  EXPECT_TRUE(report["message"]["extraInfo"]["py_callstack"].is_string());
  std::filesystem::remove(path);
}

TEST(ReportFailure, AnUnwritableFileIsNoFurtherFailure) {
  setenv("TORCHELASTIC_ERROR_FILE", "/nonexistent/error.json", 1);
  report_failure("message");
  unsetenv("TORCHELASTIC_ERROR_FILE");
  EXPECT_FALSE(std::filesystem::exists("/nonexistent"));
}

// Renaming a file to the name of a device removes the device for the whole machine, if root does it.
TEST(ReportFailure, ADeviceOrPipeStays) {
  const auto path = std::filesystem::temp_directory_path() / ("tandem_pipe_" + std::to_string(getpid()));
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1);
  report_failure("message");
  unsetenv("TORCHELASTIC_ERROR_FILE");
  EXPECT_TRUE(std::filesystem::is_fifo(path));
  std::filesystem::remove(path);
}

// Returns the time of the failure according to its report, in seconds from now.
double reported(const std::exception& error) {
  const auto path = std::filesystem::temp_directory_path() / ("tandem_dated_" + std::to_string(getpid()) + ".json");
  setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1);
  report_failure(error);
  unsetenv("TORCHELASTIC_ERROR_FILE");
  const auto now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::ifstream file(path);
  const auto report = nlohmann::json::parse(file);
  std::filesystem::remove(path);
  return 1e-9 * std::stod(report["message"]["extraInfo"]["timestamp_ns"].get<std::string>()) - now;
}

TEST(ReportFailure, DatesWhatAnotherRankCausedLater) {
  EXPECT_NEAR(reported(Error("mine")), 0, 0.5);
  EXPECT_NEAR(reported(PeerError("rank 1 is gone")), 1, 0.5);
  EarlierFailure earlier("mine, before the others");
  earlier.when -= std::chrono::seconds(5);
  EXPECT_NEAR(reported(earlier), -5, 0.5);
}

}  // namespace
}  // namespace tandem::distributed
