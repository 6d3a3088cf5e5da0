// LineChart: numbers over a logarithmic axis, as a picture. (bench/plot draws bars, in Python.)
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::distributed {

struct LineChart {
  std::string title, x_label, y_label;
  std::vector<double> x;  // growing, above 0
  // Each line has a name and a number for each x. Numbers above twice the first line's first are cut off there: a loss
  // that diverges would hide the rest.
  std::vector<std::pair<std::string, std::vector<double>>> lines;
  struct Mark {
    double x;
    std::string text;
  };
  std::optional<Mark> mark;
};

// Writes an SVG file, whole or not at all. Its colours show on light and on dark pages. Error when there is no number,
// or when the file can't be written.
void write_svg(const LineChart& chart, const std::filesystem::path& file);

}  // namespace tandem::distributed
