// Runs signal handlers on a separate stack.
#pragma once

#include <signal.h>

namespace tandem::distributed {

// Returns an argument for sigaction(2) with which `handler` runs on a separate stack. The function allocates that stack
// for the calling thread, unless the thread already has one. Interrupted system calls are restarted. Every handler in a
// process that computes must be installed in this way. Matrix products of oneDNN before 3.12 use the stack pointer for
// other data. If the system then calls a handler on the normal stack, it overwrites memory, and the process crashes
// when that memory is freed (github.com/uxlfoundation/oneDNN/issues/4845). The system delivers a signal to a process's
// first thread unless that thread blocks it, so the first thread should install the handlers.
struct sigaction on_signal_stack(void (*handler)(int));

}  // namespace tandem::distributed
