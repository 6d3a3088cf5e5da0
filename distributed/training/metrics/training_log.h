// TrainingLog: prints the lines and the progress line of a training, and writes its metrics and event files.
#pragma once

#include <tandem/core/io/event_file.h>
#include <tandem/distributed/training/metrics/console.h>
#include <tandem/distributed/training/metrics/metric.h>
#include <tandem/distributed/training/metrics/metrics_file.h>
#include <tandem/distributed/training/metrics/progress.h>
#include <tandem/distributed/training/metrics/side_output.h>
#include <tandem/distributed/training/options/training_options.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::distributed {

// Only rank 0 prints and writes. On other ranks, no function has an effect. Only one thread may use it.
class TrainingLog {
 public:
  // `options` must outlive the object.
  TrainingLog(const TrainingOptions& options, bool is_rank_0);

  // Opens the files of --metrics and --log-dir. Throws an Error if a file can't be written.
  void open();
  // Throws an Error if writing a file failed during the training, which continued without it.
  void require_written() const;
  // Removes the entries that an earlier job wrote to these files after the checkpoint from which this job resumes.
  void go_on_from(const Position& position);

  void line(const std::string& text) { console_.line(text); }  // prints a result on stdout
  void note(const std::string& text) { console_.note(text); }  // prints other lines on stderr
  EventFile* events() { return events_.get(); }                // null without --log-dir

  // Starts the clocks of an epoch and of a step line. The first `begin` batches of the epoch were done earlier.
  void begin_epoch(std::int64_t begin);
  // Called when the host has noticed the end of a batch.
  void end_batch();
  // Calls `work`, whose time does not count as training time.
  template <class F>
  auto aside(const F& work) {
    const Pause pause(*this);
    return work();
  }

  // On a terminal, a progress line is due a few times a second. `loss` is the loss of the last batch.
  bool wants_progress() const { return console_.wants_progress(); }
  void progress(const Progress& progress, double loss);
  void progress(const std::string& what, std::int64_t done, std::int64_t all);
  // Writes a step line. `loss` is the mean over all ranks.
  void step(const Progress& progress, double loss, double lr);
  // Writes the lines of an epoch that is over, or that a limit has ended. `total_loss` is the sum over all ranks.
  void epoch(const Progress& progress, double total_loss, const std::vector<Metric>& metrics);
  // Writes the metrics of an evaluation that is not part of an epoch's lines.
  void evaluation(const Progress& progress, const std::vector<Metric>& metrics);
  // Throws an Error if two metrics have the same name, or if a metric has the name of an epoch's built-in metric.
  static void check_names(const std::vector<Metric>& metrics);
  // Returns the built-in metrics of an epoch.
  std::vector<Metric> epoch_figures(const Progress& progress, double total_loss) const;

 private:
  using Clock = std::chrono::steady_clock;
  class Pause {
   public:
    explicit Pause(TrainingLog& log) : log_(log) {}
    ~Pause() {
      const auto time = Clock::now() - start_;
      log_.epoch_start_ += time;
      log_.line_start_ += time;
    }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    TrainingLog& log_;
    const Clock::time_point start_ = Clock::now();
  };

  double epoch_rate(const Progress& progress) const;  // samples per second
  void log(const std::string& prefix, std::int64_t step, const std::vector<Metric>& figures);
  void add_events(const std::string& prefix, std::int64_t step, const std::vector<Metric>& figures);

  const TrainingOptions& options_;
  Console console_;
  const bool is_rank_0_;
  MetricsFile metrics_;
  std::unique_ptr<EventFile> events_;
  SideOutput to_metrics_{[this](const std::string& line) { console_.note(line); }};
  SideOutput to_events_{[this](const std::string& line) { console_.note(line); }};

  std::int64_t epoch_begin_ = 0;       // the batch with which this process began the epoch
  Clock::time_point epoch_start_;      // the time of epoch_begin_
  double epoch_seconds_ = 0;           // the time from epoch_start_ to the last batch
  std::optional<double> smooth_loss_;  // the running average in the progress lines
  std::int64_t line_begin_ = 0;        // the first batch after the last step line
  Clock::time_point line_start_;       // the time of line_begin_
};

}  // namespace tandem::distributed
