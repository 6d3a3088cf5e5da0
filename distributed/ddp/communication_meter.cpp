#include <tandem/distributed/ddp/communication_meter.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tandem::distributed {
namespace {

using Time = std::chrono::steady_clock::time_point;

double seconds(Time begin, Time end) { return std::max(0.0, std::chrono::duration<double>(end - begin).count()); }

std::string share(double communication, double exposed) {
  const double hidden = std::max(0.0, communication - exposed);
  return fmt::format("{:.3g} ms, {:.3g} ms hidden ({:.0f} %)", 1e3 * communication, 1e3 * hidden,
                     communication > 0 ? 100 * hidden / communication : 100.0);
}

}  // namespace

std::string CommunicationReport::to_string() const {
  if (steps == 0) return "communication: no step since the buckets were made";
  std::size_t bytes = 0;
  for (const auto& bucket : buckets) bytes += bucket.bytes;
  const auto mib = [](std::size_t b) { return fmt::format("{:.3g} MiB", static_cast<double>(b) / (1 << 20)); };
  std::string text = fmt::format("per step (mean of {}): compute {:.3g} ms; communication of {} of gradients {}", steps,
                                 1e3 * compute, mib(bytes), share(communication, exposed));
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const auto& bucket = buckets[i];
    text +=
        fmt::format("\n  bucket {}: {} from {} to {}, {}: {}", i, bucket.parameters.size(), bucket.parameters.front(),
                    bucket.parameters.back(), mib(bucket.bytes), share(bucket.communication, bucket.exposed));
  }
  return text;
}

void CommunicationMeter::buckets_made() {
  sums_ = {};
  passes_.clear();
}

void CommunicationMeter::forward_begun() {
  if (!std::exchange(in_step_, true)) forward_ = Clock::now();
}

void CommunicationMeter::backward_begun() {
  forward_begun();  // if the program called the model directly, the time counts from the first gradient
  ended_ = 0;
  for (Pass& pass : passes_) {
    pass.work = nullptr;
    pass.blocked = false;
  }
}

void CommunicationMeter::reduction_begun(const GradBucket& bucket) {
  if (bucket.index == passes_.size()) {  // the first pass with these buckets
    passes_.emplace_back();
    auto& sum = sums_.buckets.emplace_back();
    sum.bytes = bucket.buffer.bytes();
    for (const auto& parameter : bucket.parameters) sum.parameters.push_back(parameter.name);
  }
  passes_[bucket.index].started = Clock::now();
}

void CommunicationMeter::reduction_started(std::size_t bucket, const std::shared_ptr<Work>& work) {
  Pass& pass = passes_[bucket];
  pass.work = work;
  pass.blocked = !work;
  if (pass.blocked) pass.ended = Clock::now();
}

void CommunicationMeter::gradient_ready() {
  for (; ended_ < passes_.size(); ++ended_) {
    Pass& pass = passes_[ended_];
    if (pass.blocked) continue;
    if (!pass.work || !pass.work->is_done()) break;
    pass.ended = Clock::now();
  }
}

void CommunicationMeter::reduction_waited(std::size_t bucket) {
  Pass& pass = passes_[bucket];
  pass.work = nullptr;
  pass.waited = Clock::now();
  if (bucket < ended_) return;
  if (!pass.blocked) pass.ended = pass.waited;
  ended_ = bucket + 1;
}

void CommunicationMeter::backward_ended() {
  in_step_ = false;
  ++sums_.steps;
  sums_.compute += seconds(forward_, computed_);
  Clock::time_point before = forward_, waited_before = computed_;
  for (std::size_t i = 0; i < passes_.size(); ++i) {
    const Pass& pass = passes_[i];
    // If this bucket's hook blocked, the meter may have noticed the end of the previous bucket only afterwards. All of
    // the hook's time counts then.
    const double communication = seconds(pass.blocked ? pass.started : std::max(pass.started, before), pass.ended);
    const double exposed = pass.blocked ? communication : std::min(communication, seconds(waited_before, pass.waited));
    sums_.buckets[i].communication += communication;
    sums_.buckets[i].exposed += exposed;
    sums_.communication += communication;
    sums_.exposed += exposed;
    before = std::max(before, pass.ended);
    waited_before = pass.waited;
  }
}

CommunicationReport CommunicationMeter::report() const {
  CommunicationReport report = sums_;
  const double steps = std::max<double>(1, static_cast<double>(report.steps));
  report.compute /= steps;
  report.communication /= steps;
  report.exposed /= steps;
  for (auto& bucket : report.buckets) {
    bucket.communication /= steps;
    bucket.exposed /= steps;
  }
  return report;
}

}  // namespace tandem::distributed
