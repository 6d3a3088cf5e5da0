// The GPU lanes of a profile come from CUPTI's records. An emulated CUPTI generates the records here.
#ifdef TANDEM_EMULATED_CUDA
#include <tandem/core/profile/profile.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "support/temporary_folder.h"

namespace tandem {
void add_gpu_trace();  // core/cuda/gpu_trace.cpp

namespace {

// Returns the events of a trace in which nothing happens on the host.
nlohmann::json trace(const char* goes_wrong) {
  static const bool added = (add_gpu_trace(), true);
  static_cast<void>(added);
  if (goes_wrong) setenv("TANDEM_EMULATED_CUPTI", goes_wrong, 1);
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "trace.json";
  Profile::start(path.string());
  Profile::stop();
  unsetenv("TANDEM_EMULATED_CUPTI");
  return nlohmann::json::parse(std::ifstream(path));
}

std::string labels(const nlohmann::json& events) {
  for (const auto& event : events)
    if (event["name"] == "process_labels") return event["args"]["labels"];
  return "";
}

TEST(CudaTrace, SaysWhyItHasNoLanesOfGpus) {
  EXPECT_NE(labels(trace("version")).find("CUPTI here is version 120000, this build knows 130000"), std::string::npos);
  EXPECT_NE(labels(trace("enable")).find("CUPTI could not watch the GPU: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS"),
            std::string::npos);
}

TEST(CudaTrace, HasTheKernelsCopiesAndFillsOfEachStream) {
  const auto events = trace(nullptr);
  EXPECT_EQ(labels(events), "");
  std::map<int, std::string> lanes;
  for (const auto& event : events)
    if (event["name"] == "thread_name") lanes[event["tid"]] = event["args"]["name"];
  std::map<std::string, nlohmann::json> found;
  for (const auto& event : events)
    if (event["ph"] == "X") found[lanes.at(event["tid"]) + ": " + event["name"].get<std::string>()] = event;
  ASSERT_TRUE(found.contains("GPU 0, stream 7: tandem::cuda::sum_rows()")) << events;
  const auto& kernel = found["GPU 0, stream 7: tandem::cuda::sum_rows()"];
  EXPECT_EQ(kernel["dur"], 5.0);
  EXPECT_EQ(kernel["args"]["grid"], "12 x 2 x 1");
  EXPECT_EQ(kernel["args"]["block"], "256 x 1 x 1");
  EXPECT_EQ(kernel["args"]["registers"], 40);
  EXPECT_EQ(found["GPU 0, stream 8: copy host to device"]["args"]["bytes"], 4096);
  EXPECT_EQ(found["GPU 0, stream 7: fill"]["args"]["bytes"], 1600);
  EXPECT_FALSE(found.contains("GPU 0, stream 8: copy between devices"));  // this record has no time
}

}  // namespace
}  // namespace tandem
#endif
