#include <tandem/core/base/check.h>
#include <tandem/core/base/deadline.h>
#include <tandem/distributed/groups/executor.h>

#include <fmt/format.h>

#include <thread>

namespace tandem::distributed {

Operation contiguous_on(Device device, const Operation& given) {
  Operation contiguous = given;
  for (auto& input : contiguous.inputs) input = input.to(device).contiguous();
  const bool reads_outputs = contiguous.inputs.empty();
  for (auto& output : contiguous.outputs) {
    if (output.device() == device && output.is_contiguous()) continue;
    output = reads_outputs ? output.to(device).contiguous() : Array::empty(output.shape(), output.dtype(), device);
  }
  return contiguous;
}

void copy_back(const Operation& contiguous, const Operation& given) {
  for (std::size_t i = 0; i < given.outputs.size(); ++i) {
    Array output = given.outputs[i];
    if (contiguous.outputs[i].raw() != output.raw()) output.copy_from(contiguous.outputs[i]);
  }
}

void mark_written(const Operation& operation) {
  for (const auto& output : operation.outputs) output.storage()->written_by(operation.kind_name());
}

void await_done(const Work& work, const std::string& what, std::chrono::milliseconds timeout) {
  using Clock = RunningTime;
  const auto until = Clock::now() + timeout;
  while (!work.is_done()) {
    TANDEM_CHECK(Clock::now() < until, not_done_text(what, timeout));
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

std::string not_done_text(const std::string& what, std::chrono::milliseconds timeout) {
  return what + " is not done after " + seconds_text(timeout);
}

std::string broken_text(const std::string& what, const std::string& failure) {
  return what + " can't run, the process group is broken: " + failure;
}

std::string late_text(const GroupObservers& observers, const Members& members, const std::vector<int>& ranks,
                      const std::string& what, std::chrono::milliseconds timeout) {
  const auto where = observers.whereabouts(ranks);
  return names_of(members, ranks) + " did not reach " + what + " within " + seconds_text(timeout) +
         (where.empty() ? "" : ": " + where);
}

std::string seconds_text(std::chrono::milliseconds time) {
  return fmt::format("{} s", static_cast<double>(time.count()) / 1000);
}

}  // namespace tandem::distributed
