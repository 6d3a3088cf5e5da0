#include <tandem/core/base/check.h>
#include <tandem/core/base/thread.h>

namespace tandem {
namespace {

constinit thread_local const char* name_of_thread = "thread";

}  // namespace

void name_thread(const char* name) { name_of_thread = name; }
const char* thread_name() { return name_of_thread; }

void detail::fail_without_thread(const std::string& what, const std::error_code& reason) {
  fail("cannot start ", what, ": ", reason.message(),
       "; raise the process limit (ulimit -u, or the container's) or the memory limit");
}

}  // namespace tandem
