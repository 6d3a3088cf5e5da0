#include <tandem/distributed/ddp/communication_report.h>

#include <fmt/format.h>

#include <algorithm>

namespace tandem::distributed {
namespace {

double seconds(CommunicationClock::Time begin, CommunicationClock::Time end) {
  return std::max(0.0, std::chrono::duration<double>(end - begin).count());
}

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

void CommunicationClock::reset(std::vector<CommunicationReport::Bucket> buckets) {
  sums_ = {};
  sums_.buckets = std::move(buckets);
  passes_.assign(sums_.buckets.size(), {});
}

void CommunicationClock::begin_forward() {
  if (!std::exchange(in_step_, true)) forward_ = now();
}

void CommunicationClock::begin_backward() {
  begin_forward();  // a model that was called directly: from the first gradient
  ended_ = 0;
}

void CommunicationClock::blocked(std::size_t bucket) {
  passes_[bucket].ended = now();
  passes_[bucket].blocked = true;
  if (ended_ == bucket) ++ended_;
}

void CommunicationClock::waited(std::size_t bucket) {
  Pass& pass = passes_[bucket];
  pass.waited = now();
  if (bucket >= ended_) {
    pass.ended = pass.waited;
    ended_ = bucket + 1;
  }
}

void CommunicationClock::end_backward() {
  in_step_ = false;
  ++sums_.steps;
  sums_.compute += seconds(forward_, computed_);
  Time before = forward_, waited_before = computed_;
  for (std::size_t i = 0; i < passes_.size(); ++i) {
    const Pass& pass = passes_[i];
    const double communication = seconds(std::max(pass.started, before), pass.ended);
    const double exposed = pass.blocked ? communication : std::min(communication, seconds(waited_before, pass.waited));
    sums_.buckets[i].communication += communication;
    sums_.buckets[i].exposed += exposed;
    sums_.communication += communication;
    sums_.exposed += exposed;
    before = pass.ended;
    waited_before = pass.waited;
  }
}

CommunicationReport CommunicationClock::report() const {
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
