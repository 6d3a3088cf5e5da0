// MetricsFile: writes the metrics of a training as JSON lines.
#pragma once

#include <tandem/distributed/system/socket.h>
#include <tandem/distributed/training/metrics/metric.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tandem::distributed {

// It appends lines, each with one system call. Before open() with a path, it writes nothing. Errors name the file. If
// the file is a pipe whose reader has stopped, write() throws an Error after a few seconds.
class MetricsFile {
 public:
  // An empty path opens nothing. Throws an Error if another job is writing the file: when it is resumed, cut_back()
  // would remove lines of this one.
  void open(const std::string& path);
  // write() appends a line of this kind ("step", "epoch", "evaluation") with the numbers, followed by the metrics.
  struct Number {
    std::string name;
    std::variant<std::int64_t, double> value;
  };
  void write(const std::string& kind, const std::vector<Number>& numbers, const std::vector<Metric>& metrics = {});
  // Removes lines from the end of the file that the job wrote after the checkpoint from which it now resumes: lines of
  // epochs that were not finished then, lines of later steps, and an incomplete last line. Lines of other programs
  // stay. A pipe does not change.
  void cut_back(std::int64_t epoch, std::int64_t step);

 private:
  void append(std::string_view text);

  std::string path_;
  FileDescriptor file_;  // locked
  bool is_new_ = true;   // whether nothing has been written
};

}  // namespace tandem::distributed
