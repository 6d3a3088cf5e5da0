#include <tandem/core/base/check.h>
#include <tandem/distributed/system/cores.h>
#include <tandem/distributed/system/process_limits.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <vector>

namespace tandem::distributed {

int available_cores() {
  cpu_set_t allowed;
  int cores = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
  for (const auto& limits : process_limits.entries()) {
    if (const auto limit = limits.cpu()) cores = std::min(cores, static_cast<int>(std::ceil(*limit)));
  }
  return std::max(1, cores);
}

cpu_set_t core_share(int local_rank, int processes) {
  cpu_set_t allowed;
  TANDEM_CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0,
               "cannot determine this process's cores: ", std::strerror(errno));
  std::vector<int> cores;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) cores.push_back(i);
  }
  const int count = static_cast<int>(cores.size());
  const int begin = processes > count ? local_rank % count : local_rank * count / processes;
  const int end = processes > count ? begin + 1 : (local_rank + 1) * count / processes;
  cpu_set_t mine;
  CPU_ZERO(&mine);
  for (int i = begin; i < end; ++i) CPU_SET(cores[static_cast<std::size_t>(i)], &mine);
  return mine;
}

}  // namespace tandem::distributed
