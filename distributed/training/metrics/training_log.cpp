#include <tandem/distributed/training/metrics/training_log.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace tandem::distributed {
namespace {

// Returns "0:07", "12:30" or "3h05m".
std::string time_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  const auto minutes = whole / 60;
  return minutes < 60 ? fmt::format("{}:{:02}", minutes, whole % 60)
                      : fmt::format("{}h{:02}m", minutes / 60, minutes % 60);
}

// Returns "3.4 images/s" or "120 images/s".
std::string rate_text(double rate, const std::string& samples) {
  return fmt::format("{:.{}f} {}/s", rate, rate < 9.95 ? 1 : 0, samples);
}

double seconds_between(std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end) {
  return std::max(std::chrono::duration<double>(end - begin).count(), 1e-9);
}

}  // namespace

TrainingLog::TrainingLog(const TrainingOptions& options, bool is_rank_0)
    : options_(options), console_(is_rank_0 && !options.quiet), is_rank_0_(is_rank_0) {}

void TrainingLog::open() {
  if (!is_rank_0_) return;
  metrics_.open(options_.metrics);
  if (!options_.log_dir.empty()) events_ = std::make_unique<EventFile>(options_.log_dir);
}

void TrainingLog::go_on_from(const Position& position) {
  if (!is_rank_0_) return;
  to_metrics_.write([&] { metrics_.cut_back(position.epoch, position.step); });
  if (events_) to_events_.write([&] { events_->add_restart(position.step + 1); });
}

void TrainingLog::begin_epoch(std::int64_t begin) {
  epoch_start_ = line_start_ = Clock::now();
  epoch_begin_ = line_begin_ = begin;
  epoch_seconds_ = 0;
  // Show a sign of life, because the first step may take long.
  if (console_.wants_progress()) console_.progress({"the first step is running"});
}

void TrainingLog::end_batch() { epoch_seconds_ = seconds_between(epoch_start_, Clock::now()); }

double TrainingLog::epoch_rate(const Progress& progress) const {
  return static_cast<double>(progress.samples_since(epoch_begin_)) / std::max(epoch_seconds_, 1e-9);
}

void TrainingLog::progress(const Progress& progress, double loss) {
  const auto& at = progress.position();
  const double of_a_batch = epoch_seconds_ / static_cast<double>(at.batch - epoch_begin_);
  const std::int64_t left = progress.batches() - at.batch, accumulate = progress.division().accumulate;
  const std::int64_t steps_later = (options_.epochs - at.epoch - 1) * progress.steps_per_epoch();
  const std::int64_t steps_at_most = std::max<std::int64_t>(0, options_.max_steps - at.step);
  const double all = std::min(static_cast<double>(left) + static_cast<double>(steps_later * accumulate),
                              static_cast<double>(steps_at_most) * static_cast<double>(accumulate));
  // A loss that is not finite would spoil all later values. With f16, a skipped step may have such a loss.
  if (std::isfinite(loss)) smooth_loss_ = 0.9 * smooth_loss_.value_or(loss) + 0.1 * loss;
  console_.progress(
      {fmt::format("epoch {}/{} batch {}/{}", at.epoch + 1, options_.epochs, at.batch, progress.batches()),
       fmt::format("loss {:#.4g}", plain(smooth_loss_.value_or(loss))),
       fmt::format("{} left, job {}", time_text(of_a_batch * static_cast<double>(left)), time_text(of_a_batch * all)),
       rate_text(epoch_rate(progress), options_.samples_name)});
}

void TrainingLog::progress(const std::string& what, std::int64_t done, std::int64_t all) {
  if (console_.wants_progress()) console_.progress({what, fmt::format("{}/{}", done, all)});
}

void TrainingLog::step(const Progress& progress, double loss, double lr) {
  const auto& at = progress.position();
  const double rate =
      static_cast<double>(progress.samples_since(line_begin_)) / seconds_between(line_start_, Clock::now());
  to_metrics_.write([&] {
    metrics_.write("step",
                   {{"epoch", at.epoch}, {"step", at.step}, {"loss", loss}, {"lr", lr}, {"images_per_second", rate}});
  });
  log("train/", at.step, {{"loss", loss}, {"lr", lr}, {"images_per_second", rate}});
  if (!console_.is_on_terminal())
    console_.line(fmt::format("step {}: loss {:.4f}, lr {:.4g}, {}", at.step, plain(loss), lr,
                              rate_text(rate, options_.samples_name)));
  line_start_ = Clock::now();
  line_begin_ = at.batch;
}

std::vector<Metric> TrainingLog::epoch_figures(const Progress& progress, double total_loss) const {
  return {{"total_loss", total_loss, Metric::Kind::number},
          {"images_per_second", epoch_rate(progress), Metric::Kind::number},
          {"epoch_seconds", epoch_seconds_, Metric::Kind::seconds}};
}

void TrainingLog::check_names(const std::vector<Metric>& metrics) {
  std::set<std::string> names = {"kind",          "epoch",      "step",      "total_loss", "images_per_second",
                                 "epoch_seconds", "world_size", "batch_size"};
  for (const auto& metric : metrics)
    TANDEM_CHECK(names.insert(metric.name).second, "there is already a metric \"", metric.name,
                 "\": give this one another name");
}

void TrainingLog::epoch(const Progress& progress, double total_loss, const std::vector<Metric>& metrics) {
  const auto& at = progress.position();
  const std::string figures = shown(metrics);
  console_.line(fmt::format("Total loss: {}", plain(total_loss)));
  const std::string part =
      progress.epoch_is_complete() ? "" : fmt::format(" up to batch {} of {}", at.batch, progress.batches());
  console_.line(fmt::format("Epoch {}/{}{}: {}{}{}, {:.2f} s", at.epoch + 1, options_.epochs, part, figures,
                            figures.empty() ? "" : ", ", rate_text(epoch_rate(progress), options_.samples_name),
                            epoch_seconds_));

  auto figures_of_epoch = epoch_figures(progress, total_loss);
  std::vector<MetricsFile::Number> line = {{"epoch", at.epoch}};
  for (const auto& [name, value, kind] : figures_of_epoch) line.push_back({name, std::get<double>(value)});
  line.push_back({"world_size", progress.division().world_size});
  line.push_back({"batch_size", progress.division().batch_size});
  figures_of_epoch.pop_back();  // TensorBoard shows times itself
  figures_of_epoch.insert(figures_of_epoch.end(), metrics.begin(), metrics.end());
  to_metrics_.write([&] { metrics_.write("epoch", line, metrics); });
  log("epoch/", at.step, figures_of_epoch);
}

void TrainingLog::evaluation(const Progress& progress, const std::vector<Metric>& metrics) {
  const auto& at = progress.position();
  const std::string when = at.batch > 0 ? fmt::format("Step {}: ", at.step) : "";
  console_.line(when + shown(metrics));
  to_metrics_.write([&] { metrics_.write("evaluation", {{"epoch", at.epoch}, {"step", at.step}}, metrics); });
  log("evaluation/", at.step, metrics);
}

void TrainingLog::require_written() const {
  to_metrics_.require_written();
  to_events_.require_written();
}

void TrainingLog::log(const std::string& prefix, std::int64_t step, const std::vector<Metric>& figures) {
  if (events_ && !to_events_.write([&] { add_events(prefix, step, figures); })) events_.reset();
}

void TrainingLog::add_events(const std::string& prefix, std::int64_t step, const std::vector<Metric>& figures) {
  for (const auto& [name, value, kind] : figures) {
    if (const auto* const number = std::get_if<double>(&value)) {
      events_->add_scalar(prefix + name, step, *number);
      continue;
    }
    if (const auto* const table = std::get_if<Table>(&value)) {
      events_->add_text(prefix + name, step, markdown(*table, kind));
      continue;
    }
    const auto& numbers = std::get<std::vector<double>>(value);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      events_->add_scalar(fmt::format("{}{}/{}", prefix, name, i), step, numbers[i]);
  }
  events_->flush();
}

}  // namespace tandem::distributed
