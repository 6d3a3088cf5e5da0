// MetricsFile: the figures of a training as JSON lines.
#pragma once

#include <tandem/distributed/training/metrics/metric.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

namespace tandem::distributed {

// Lines are appended, and each is flushed. Before open() with a path, nothing is written. Errors name the file.
class MetricsFile {
 public:
  // An empty path opens nothing.
  void open(const std::string& path);
  // A line of this kind ("step", "epoch", "evaluation") with the numbers, and then the metrics.
  struct Number {
    std::string name;
    std::variant<std::int64_t, double> value;
  };
  void write(const std::string& kind, const std::vector<Number>& numbers, const std::vector<Metric>& metrics = {});
  // Removes from the end of the file what a job wrote after the checkpoint from which it goes on now: lines of epochs
  // that were not over by then, lines of later steps, and half such a line. What other programs wrote stays, and so
  // does a pipe.
  void cut_back(std::int64_t epoch, std::int64_t step);

 private:
  std::string path_;
  std::ofstream file_;
  bool is_new_ = true;  // nothing has been written
};

}  // namespace tandem::distributed
