#include <tandem/distributed/system/signal_name.h>

#include <cstring>

namespace tandem::distributed {

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

}  // namespace tandem::distributed
