#include <gtest/gtest.h>
#include <support/trace.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace tandem::testing {

int Trace::count(const std::string& lane, const std::string& name) const {
  return static_cast<int>(std::count_if(ranges.begin(), ranges.end(), [&](const nlohmann::json& range) {
    return range.at("name") == name && lanes.at(range.at("tid")) == lane;
  }));
}

Trace read_trace(const std::string& path) {
  Trace trace;
  std::ifstream file(path);
  const auto events = nlohmann::json::parse(file);
  for (const auto& event : events) {
    EXPECT_EQ(event.at("pid"), events[0].at("pid"));
    if (event.at("ph") == "X") trace.ranges.push_back(event);
    else if (event.at("name") == "process_name") trace.process_name = event.at("args").at("name");
    else if (event.at("name") == "thread_name") trace.lanes[event.at("tid")] = event.at("args").at("name");
    else if (event.at("name") == "process_labels") trace.label = event.at("args").at("labels");
    else ADD_FAILURE() << "unexpected: " << event;
  }
  return trace;
}

void expect_nested(const Trace& trace) {
  struct Span {
    long long begin, end;  // nanoseconds
  };
  std::map<int, std::vector<Span>> lanes;
  for (const auto& range : trace.ranges) {
    const auto nanoseconds = [&](const char* key) { return std::llround(range.at(key).get<double>() * 1000); };
    lanes[range.at("tid")].push_back({nanoseconds("ts"), nanoseconds("ts") + nanoseconds("dur")});
  }
  for (auto& [lane, spans] : lanes) {
    std::sort(spans.begin(), spans.end(),
              [](Span a, Span b) { return a.begin != b.begin ? a.begin < b.begin : a.end > b.end; });
    std::vector<Span> open;
    for (const Span& span : spans) {
      while (!open.empty() && open.back().end <= span.begin) open.pop_back();
      // The times are doubles, with an error of at most a few nanoseconds.
      if (!open.empty()) {
        ASSERT_LE(span.end, open.back().end + 4) << "in lane " << trace.lanes.at(lane);
      }
      open.push_back(span);
    }
  }
}

}  // namespace tandem::testing
