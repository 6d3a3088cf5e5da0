#include <tandem/core/base/check.h>
#include <tandem/distributed/training/metrics/side_output.h>

namespace tandem::distributed {

bool SideOutput::write(const std::function<void()>& write) {
  if (!failure_.empty()) return false;
  try {
    write();
    return true;
  } catch (const Error& error) {
    failure_ = error.what();
    say_("error: " + failure_ + "; the training continues without it, and ends with this error");
    return false;
  }
}

void SideOutput::require_written() const { TANDEM_CHECK(failure_.empty(), failure_); }

}  // namespace tandem::distributed
