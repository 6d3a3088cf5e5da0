#include <tandem/core/base/check.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/cuda/plan_log.h>

#include <cstdlib>
#include <fstream>
#include <mutex>

namespace tandem::cuda {

namespace {

struct PlanLog {
  std::mutex mutex;
  std::ofstream file;
  PlanLog() {
    const char* const path = std::getenv("TANDEM_PLAN_LOG");
    if (!path || !*path) return;
    file.open(path, std::ios::app);
    TANDEM_CHECK(file, "TANDEM_PLAN_LOG: can't write to ", path, ": its folder must exist and be writable");
  }
};

PlanLog& plan_log() {
  static PlanLog log;
  return log;
}

}  // namespace

bool has_plan_log() { return plan_log().file.is_open(); }

void log_plan(const std::string& line) {
  PlanLog& log = plan_log();
  const std::lock_guard lock(log.mutex);
  log.file << detail::with_scope(line) << std::endl;
}

}  // namespace tandem::cuda
