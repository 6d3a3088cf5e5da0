#include <tandem/core/base/check.h>
#include <tandem/core/base/thread.h>

namespace tandem::detail {

void fail_without_thread(const std::string& what, const std::error_code& reason) {
  fail("cannot start ", what, ": ", reason.message(),
       "; raise the limit of processes (ulimit -u, or the container's) or of memory");
}

}  // namespace tandem::detail
