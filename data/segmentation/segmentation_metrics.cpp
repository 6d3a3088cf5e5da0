#include <tandem/data/segmentation/segmentation_metrics.h>

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace tandem::data {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Array on_host(const Array& labels, const char* what) {
  TANDEM_CHECK(labels.defined() && (labels.dtype() == DType::i64 || labels.dtype() == DType::u8),
               "ConfusionMatrix: ", what, " must be classes as i64 or u8, got ", labels.dtype());
  return labels.to(Device{}).to(DType::i64).contiguous();
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(std::int64_t classes, std::int64_t ignored) : ignored_(ignored) {
  TANDEM_CHECK(classes >= 1, "ConfusionMatrix: expected at least one class, got ", classes);
  counts_ = Array::empty({classes, classes}, DType::i64);
  counts_.fill(0);
}

void ConfusionMatrix::add(const Array& prediction, const Array& target) {
  const Array predicted = on_host(prediction, "the prediction"), wanted = on_host(target, "the target");
  TANDEM_CHECK(predicted.shape() == wanted.shape(), "ConfusionMatrix: predictions ", predicted.shape(), " and targets ",
               wanted.shape(), " must have the same shape");
  const std::int64_t n = classes();
  const auto *from = wanted.data<std::int64_t>(), *to = predicted.data<std::int64_t>();
  std::vector<std::int64_t> counted(static_cast<std::size_t>(n * n), 0);
  for (std::int64_t i = 0; i < wanted.numel(); ++i) {
    if (from[i] == ignored_) continue;
    TANDEM_CHECK(from[i] >= 0 && from[i] < n, "ConfusionMatrix: a target is ", from[i], ", expected 0 to ", n - 1,
                 " or ", ignored_, ", which is ignored");
    TANDEM_CHECK(to[i] >= 0 && to[i] < n, "ConfusionMatrix: a prediction is ", to[i], ", expected 0 to ", n - 1);
    ++counted[static_cast<std::size_t>(n * from[i] + to[i])];
  }
  auto* const sums = counts_.data<std::int64_t>();
  for (std::int64_t i = 0; i < n * n; ++i) sums[i] += counted[static_cast<std::size_t>(i)];
}

double ConfusionMatrix::pixel_accuracy() const {
  const std::int64_t n = classes();
  const auto* counts = counts_.data<std::int64_t>();
  std::int64_t right = 0, all = 0;
  for (std::int64_t i = 0; i < n * n; ++i) all += counts[i];
  for (std::int64_t i = 0; i < n; ++i) right += counts[i * n + i];
  return all > 0 ? static_cast<double>(right) / static_cast<double>(all) : nan;
}

std::vector<double> ConfusionMatrix::class_iou() const {
  const std::int64_t n = classes();
  const auto* counts = counts_.data<std::int64_t>();
  std::vector<double> result;
  for (std::int64_t c = 0; c < n; ++c) {
    std::int64_t all = -counts[c * n + c];
    for (std::int64_t i = 0; i < n; ++i) all += counts[c * n + i] + counts[i * n + c];
    result.push_back(all > 0 ? static_cast<double>(counts[c * n + c]) / static_cast<double>(all) : nan);
  }
  return result;
}

std::vector<double> ConfusionMatrix::class_accuracy() const {
  const std::int64_t n = classes();
  const auto* counts = counts_.data<std::int64_t>();
  std::vector<double> result;
  for (std::int64_t c = 0; c < n; ++c) {
    const std::int64_t all = std::accumulate(counts + c * n, counts + (c + 1) * n, std::int64_t{0});
    result.push_back(all > 0 ? static_cast<double>(counts[c * n + c]) / static_cast<double>(all) : nan);
  }
  return result;
}

std::vector<std::vector<double>> ConfusionMatrix::columns() const {
  std::vector<std::vector<double>> columns;
  for (std::int64_t predicted = 0; predicted < classes(); ++predicted)
    columns.push_back(counts_.select(1, predicted).to(DType::f64).contiguous().to_vector<double>());
  return columns;
}

std::string ConfusionMatrix::table(const std::vector<std::string>& names) const {
  const std::int64_t n = classes();
  TANDEM_CHECK(static_cast<std::int64_t>(names.size()) == n, "ConfusionMatrix::table: expected ", n, " names, got ",
               names.size());
  const auto* counts = counts_.data<std::int64_t>();
  const auto all = static_cast<double>(std::accumulate(counts, counts + n * n, std::int64_t{0}));
  const auto iou = class_iou(), accuracy = class_accuracy();
  const auto percent = [](double share) { return std::isnan(share) ? "-" : fmt::format("{:.2f} %", 100 * share); };
  std::string text =
      fmt::format("{:<16}{:>10}{:>10}{:>10}  {}\n", "class", "IoU", "accuracy", "pixels", "most often taken for");
  for (std::int64_t c = 0; c < n; ++c) {
    if (std::isnan(iou[c])) continue;
    const std::int64_t pixels = std::accumulate(counts + c * n, counts + (c + 1) * n, std::int64_t{0});
    std::int64_t other = c == 0 ? n - 1 : 0;
    for (std::int64_t i = 0; i < n; ++i)
      if (i != c && counts[c * n + i] > counts[c * n + other]) other = i;
    const bool is_taken = other != c && counts[c * n + other] > 0;
    text += fmt::format(
        "{:<16}{:>10}{:>10}{:>10}  {}\n", names[c], percent(iou[c]), percent(accuracy[c]),
        percent(static_cast<double>(pixels) / all),
        is_taken ? fmt::format("{} ({})", names[other],
                               percent(static_cast<double>(counts[c * n + other]) / static_cast<double>(pixels)))
                 : "");
  }
  return text;
}

double ConfusionMatrix::mean_iou() const {
  double sum = 0;
  int count = 0;
  for (const double iou : class_iou()) {
    if (std::isnan(iou)) continue;
    sum += iou;
    ++count;
  }
  return count > 0 ? sum / count : nan;
}

}  // namespace tandem::data
