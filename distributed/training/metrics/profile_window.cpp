#include <tandem/core/backend/backend.h>
#include <tandem/distributed/training/metrics/console.h>
#include <tandem/distributed/training/metrics/profile_window.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace tandem::distributed {

ProfileWindow::ProfileWindow(const TrainingOptions& options, int rank, int size,
                             std::function<void(const std::string&)> note)
    : options_(options),
      file_(options.profile_of(rank, size)),
      rank_(rank),
      note_(std::move(note)),
      output_(note_),
      is_on_(!file_.empty() && options.profile_steps == StepWindow{}) {
  if (file_.empty() || is_on_) return;
  // Check now, not in the middle of the training, whether the file can be written.
  Profile::start(file_, rank_);
  Profile::stop();
}

void ProfileWindow::begin_step(std::int64_t number) {
  const auto& [first, last] = options_.profile_steps;
  if (file_.empty() || is_on_ || is_over_ || number < first || number > last) return;
  synchronize(options_.device());
  is_on_ = output_.write([&] { Profile::start(file_, rank_); });
  is_over_ = !is_on_;
}

void ProfileWindow::end_step(std::int64_t number) {
  if (!is_on_) return;
  ++steps_;
  if (number == options_.profile_steps.last) finish();
}

void ProfileWindow::finish() {
  if (file_.empty() || std::exchange(is_over_, true)) return;
  if (!std::exchange(is_on_, false)) {
    note_(fmt::format("note: {} is empty: there was no step from {} to {}", file_, options_.profile_steps.first,
                      options_.profile_steps.last));
    return;
  }
  synchronize(options_.device());
  if (!output_.write([] { Profile::stop(); })) return;
  note_("profile in " + file_ + ": " + summary_text(Profile::summary(), steps_));
}

std::string summary_text(const ProfileSummary& summary, std::int64_t steps) {
  // Ranges of the training thread. None of these ranges contains another.
  const auto share_of = [&](std::initializer_list<const char*> names) {
    double seconds = 0;
    for (const auto& row : summary.rows)
      if (row.lane == "compute" && std::find(names.begin(), names.end(), row.name) != names.end())
        seconds += row.seconds;
    return 100 * seconds / std::max(summary.seconds, 1e-9);
  };
  std::string text =
      fmt::format("{} in {:.3f} s, of that {:.1f} % waiting for data, {:.1f} % for other ranks", counted(steps, "step"),
                  summary.seconds, share_of({"load batch", "wait for batch"}), share_of({"wait for ranks"}));

  const bool has_gpu = std::any_of(summary.rows.begin(), summary.rows.end(),
                                   [](const auto& row) { return row.lane.starts_with("GPU"); });
  struct Sum {
    std::int64_t count = 0;
    double self = 0;
  };
  std::map<std::string, Sum> sums;  // by name, summed over the lanes
  double all = 0;
  for (const auto& row : summary.rows) {
    const bool waits = row.name.starts_with("wait for ") || row.name == "load batch";
    const bool counts = has_gpu ? row.lane.starts_with("GPU")
                                : !waits && (row.lane.starts_with("compute") || row.lane.starts_with("replica"));
    if (!counts || row.self <= 0) continue;
    sums[row.name].count += row.count;
    sums[row.name].self += row.self;
    all += row.self;
  }
  std::vector<std::pair<std::string, Sum>> top(sums.begin(), sums.end());
  std::sort(top.begin(), top.end(), [](const auto& a, const auto& b) { return a.second.self > b.second.self; });
  constexpr std::size_t most = 10;  // and two lines above them
  if (top.size() > most) top.resize(most);
  text += fmt::format("\n{:<32}{:>10}{:>14}{:>10}", has_gpu ? "kernel" : "operation", "calls", "milliseconds", "share");
  for (const auto& [name, sum] : top)
    text += fmt::format("\n{:<32}{:>10}{:>14.2f}{:>8.1f} %", name.substr(0, 31), sum.count, 1e3 * sum.self,
                        100 * sum.self / std::max(all, 1e-12));
  return text;
}

}  // namespace tandem::distributed
