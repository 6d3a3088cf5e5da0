#include <tandem/distributed/job/core_division.h>
#include <tandem/distributed/system/cores.h>
#include <tandem/distributed/system/host_identity.h>
#include <tandem/distributed/system/process_limits.h>

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <sstream>

namespace tandem::distributed {
namespace {

// Equal for processes that share their cores: on one machine, with one affinity mask, and where their control group has
// a limit, in one such group.
std::string core_identity() {
  cpu_set_t allowed;
  std::string text = machine_identity() + " ";
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i) text += CPU_ISSET(i, &allowed) ? std::to_string(i) + "," : "";
  for (const auto& limits : process_limits().entries()) {
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

}  // namespace tandem::distributed
