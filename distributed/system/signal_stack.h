// Gives signal handlers a stack of their own.
#pragma once

#include <signal.h>

namespace tandem::distributed {

// For sigaction(2): `handler` runs on a stack of its own, which the calling thread gets until it ends, unless it has
// one already; interrupted calls of the system go on. Every handler in a process that computes must be installed so.
// Matrix products of oneDNN before 3.12 use the stack pointer for something else: what the system writes there before
// it calls a handler damages memory, and the process ends when that memory is freed
// (github.com/uxlfoundation/oneDNN/issues/4845). A signal to a process goes to its first thread where that one does not
// block it, so handlers should be installed by the first thread.
struct sigaction on_signal_stack(void (*handler)(int));

}  // namespace tandem::distributed
