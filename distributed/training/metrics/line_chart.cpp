#include <tandem/core/base/check.h>
#include <tandem/core/io/atomic_file.h>
#include <tandem/distributed/training/metrics/line_chart.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tandem::distributed {
namespace {

// The size of the image, and the frame around the lines, in pixels.
constexpr double width = 720, height = 400, left = 64, right = 704, top = 64, bottom = 344;
constexpr const char* grey = "#767676";
constexpr std::array colours = {"#d55e00", "#0072b2", "#009e73", "#cc79a7"};  // the palette of Okabe and Ito

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') result += "&amp;";
    else if (c == '<') result += "&lt;";
    else result += c;
  }
  return result;
}

std::string text_at(double x, double y, const std::string& text, const char* anchor = "start", int size = 12) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\">{}</text>\n", x, y, anchor,
                     size, escaped(text));
}

std::string line_between(double x1, double y1, double x2, double y2, double opacity) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-opacity=\"{}\"/>\n", x1, y1,
      x2, y2, grey, opacity);
}

// Converts numbers to positions in the image.
class Scale {
 public:
  explicit Scale(const LineChart& chart) : first_(std::log10(chart.x.front())), last_(std::log10(chart.x.back())) {
    const double cap = std::max(2 * chart.lines[0].second[0], chart.lines[0].second[0] + 1e-9);
    for (const auto& [name, values] : chart.lines)
      for (const double value : values) {
        least_ = std::min(least_, value);
        most_ = std::max(most_, std::min(value, cap));
      }
    if (most_ <= least_) most_ = least_ + 1;
    if (last_ <= first_) last_ = first_ + 1;
  }

  double x(double value) const { return left + (right - left) * (std::log10(value) - first_) / (last_ - first_); }
  double y(double value) const {
    return bottom - (bottom - top) * (std::clamp(value, least_, most_) - least_) / (most_ - least_);
  }

  std::string axes() const {
    std::string drawn;
    for (int power = static_cast<int>(std::ceil(first_ - 1e-9)); power <= last_ + 1e-9; ++power) {
      const double at = x(std::pow(10.0, power));
      drawn += line_between(at, top, at, bottom, 0.25) + text_at(at, bottom + 18, fmt::format("1e{}", power), "middle");
    }
    const double raw = (most_ - least_) / 4, power = std::pow(10.0, std::floor(std::log10(raw)));
    const double step = power * (raw >= 5 * power ? 5 : raw >= 2 * power ? 2 : 1);
    for (double value = std::ceil(least_ / step) * step; value <= most_; value += step)
      drawn += line_between(left, y(value), right, y(value), 0.25) +
               text_at(left - 8, y(value) + 4, fmt::format("{:.4g}", value), "end");
    return drawn + line_between(left, bottom, right, bottom, 1) + line_between(left, top, left, bottom, 1);
  }

 private:
  double first_, last_;  // logarithms
  double least_ = std::numeric_limits<double>::max(), most_ = std::numeric_limits<double>::lowest();
};

}  // namespace

void write_svg(const LineChart& chart, const std::filesystem::path& file) {
  TANDEM_CHECK(!chart.x.empty() && !chart.lines.empty(), "there is nothing to draw in ", file.string());
  const Scale scale(chart);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
      "font-family=\"system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif\" fill=\"{2}\">\n"
      "<title>{3}</title>\n",
      width, height, grey, escaped(chart.title));
  svg += text_at(16, 24, chart.title, "start", 16) + scale.axes();
  svg += text_at((left + right) / 2, height - 16, chart.x_label, "middle") + text_at(16, top - 12, chart.y_label);
  double legend = left + 64;
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    const auto& [name, values] = chart.lines[i];
    const char* const colour = colours[i % colours.size()];
    const bool is_last = i + 1 == chart.lines.size();
    std::string points;
    for (std::size_t k = 0; k < values.size(); ++k)
      points += fmt::format("{:.1f},{:.1f} ", scale.x(chart.x[k]), scale.y(values[k]));
    svg +=
        fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-opacity=\"{}\"/>\n",
                    points, colour, is_last ? 2 : 1, is_last ? 1 : 0.5);
    svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"3\" fill=\"{}\"/>\n", legend, top - 17, colour);
    svg += text_at(legend + 18, top - 12, name);
    legend += 40 + 7 * static_cast<double>(name.size());
  }
  if (chart.mark) {
    const double x = scale.x(chart.mark->x);
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"{3}\" stroke-width=\"2\" "
        "stroke-dasharray=\"4 4\"/>\n",
        x, top, bottom, colours[2]);
    svg += text_at(x + 6, top + 14, chart.mark->text);
  }
  svg += "</svg>\n";
  AtomicFile output(file);
  output.write(svg.data(), svg.size());
  output.commit();
}

}  // namespace tandem::distributed
