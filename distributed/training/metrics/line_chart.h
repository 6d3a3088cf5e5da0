// LineChart: draws numbers over a logarithmic axis. (bench/plot draws bars, in Python.)
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
  // Each line has a name and a number for each x. Numbers are capped at twice the first number of the first line,
  // because a diverging loss would hide the rest.
  std::vector<std::pair<std::string, std::vector<double>>> lines;
  struct Mark {
    double x;
    std::string text;
  };
  std::optional<Mark> mark;
};

// Writes a complete SVG file or none. Its colours are visible on light and on dark pages. Throws an Error if there are
// no numbers, or if the file can't be written.
void write_svg(const LineChart& chart, const std::filesystem::path& file);

}  // namespace tandem::distributed
