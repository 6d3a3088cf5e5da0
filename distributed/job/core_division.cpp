#include <tandem/distributed/job/core_division.h>
#include <tandem/distributed/system/cores.h>
#include <tandem/distributed/system/host_identity.h>
#include <tandem/distributed/system/process_limits.h>

#include <fmt/format.h>
#include <omp.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace tandem::distributed {
namespace {

// Returns a text that is equal for processes that share their cores: they run on the same machine, have the same
// affinity mask, and are in the same control group if it limits the cores.
std::string core_identity() {
  cpu_set_t allowed;
  std::string text = machine_identity() + " ";
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i) text += CPU_ISSET(i, &allowed) ? std::to_string(i) + "," : "";
  for (const auto& limits : process_limits.entries()) {
    if (limits.cpu()) text += limits.identity();
  }
  return text;
}

std::string text_of(const RankCores& rank) {
  return fmt::format("{} {} {} {}", rank.cores, rank.threads, rank.is_given ? 1 : 0, rank.identity);
}

RankCores rank_of(const std::string& text) {
  RankCores rank;
  std::istringstream stream(text);
  stream >> rank.cores >> rank.threads >> rank.is_given;
  std::getline(stream, rank.identity);
  return rank;
}

}  // namespace

std::vector<int> divided_threads(const std::vector<RankCores>& ranks) {
  std::vector<int> threads;
  for (const RankCores& rank : ranks) {
    const auto sharers = std::ranges::count(ranks, rank.identity, &RankCores::identity);
    threads.push_back(rank.is_given ? rank.threads : std::max(1, rank.cores / static_cast<int>(sharers)));
  }
  return threads;
}

std::string oversubscription(const std::vector<RankCores>& ranks, const std::vector<int>& threads) {
  for (const RankCores& rank : ranks) {
    int all = 0, most = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i].identity != rank.identity) continue;
      all += threads[i];
      most = std::max(most, threads[i]);
    }
    if (most > 1 && all > rank.cores)
      return fmt::format("{} threads on {} core{} wait for each other most of the time", all, rank.cores,
                         rank.cores == 1 ? "" : "s");
  }
  return "";
}

std::string divide_cores(ProcessGroup& group, bool is_given) {
  const RankCores mine{core_identity(), available_cores(), omp_get_max_threads(), is_given};
  std::vector<RankCores> ranks;
  for (const auto& text : group.all_gather_strings(text_of(mine), "cores")) ranks.push_back(rank_of(text));
  const auto threads = divided_threads(ranks);
  omp_set_num_threads(threads[static_cast<std::size_t>(group.rank())]);
  return group.rank() == 0 ? oversubscription(ranks, threads) : "";
}

void check_thread_settings() {
  // The OpenMP library keeps 100 bytes per thread on the stack, so this many need less than the smallest stack below.
  constexpr int most_threads = 4096;
  TANDEM_CHECK(omp_get_max_threads() <= most_threads, "OMP_NUM_THREADS is ", omp_get_max_threads(),
               ", expected at most ", most_threads, ": unset it to use the number of cores");
  constexpr rlim_t least_kib = 512;
  rlimit limit{};
  TANDEM_CHECK(getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= least_kib << 10, "the stack has at most ",
               limit.rlim_cur >> 10, " KiB, expected at least ", least_kib, ": raise the limit (ulimit -s 8192)");
  for (const char* name : {"OMP_STACKSIZE", "GOMP_STACKSIZE"}) {
    const char* const text = std::getenv(name);
    char* unit = nullptr;
    const auto number = text ? std::strtoull(text, &unit, 10) : 0;
    if (!text || unit == text) continue;
    while (*unit == ' ') ++unit;
    const char letter = static_cast<char>(*unit | 32);  // a number without a unit is in KiB
    const auto bytes = number << (letter == 'b' ? 0 : letter == 'm' ? 20 : letter == 'g' ? 30 : 10);
    TANDEM_CHECK(bytes >= least_kib << 10, name, " is ", text, ", expected at least ", least_kib, "K: unset it");
  }
}

}  // namespace tandem::distributed
