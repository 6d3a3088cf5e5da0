// signal_name: returns the usual name of a signal.
#pragma once

#include <string>

namespace tandem::distributed {

std::string signal_name(int signal);  // "SIGKILL"; "signal 99" for a number without a name

}  // namespace tandem::distributed
