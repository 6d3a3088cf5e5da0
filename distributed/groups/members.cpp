#include <tandem/core/base/check.h>
#include <tandem/core/base/deadline.h>
#include <tandem/distributed/groups/members.h>
#include <tandem/distributed/system/host_identity.h>

#include <unistd.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace tandem::distributed {
namespace {

std::string key(int rank) { return "member/" + std::to_string(rank); }

}  // namespace

std::string Member::name() const { return "rank " + std::to_string(rank) + " (" + host + ", pid " + pid + ")"; }

Members collect_members(Store& store, int rank, int size, Member mine, Store::Timeout timeout) {
  using Clock = RunningTime;
  std::ostringstream text;
  text << mine.rank << '\n' << host_name() << '\n' << getpid() << '\n' << loopback_identity() << '\n';
  text << mine.backend << '\n' << mine.cannot_share;
  store.set(key(rank), text.str());

  Members members;
  const auto deadline = Clock::now() + timeout;
  for (int r = 0; r < size; ++r) {
    const auto left = std::chrono::duration_cast<Store::Timeout>(deadline - Clock::now());
    try {
      store.wait({key(r)}, std::max(left, Store::Timeout(1)));
    } catch (const Error& error) {
      detail::fail("rank ", rank, " of ", size, " waited ", static_cast<double>(timeout.count()) / 1000, " s for rank ",
                   r, " to join the process group: is it running, with the same MASTER_ADDR and MASTER_PORT? (",
                   error.what(), ")");
    }
    members.push_back(member_of(store, r));
  }
  return members;
}

Member member_of(Store& store, int rank) {
  std::istringstream text(store.get(key(rank)));
  Member member;
  std::string number;
  std::getline(text, number);
  member.rank = std::stoi(number);
  std::getline(text, member.host);
  std::getline(text, member.pid);
  std::getline(text, member.loopback);
  std::getline(text, member.backend);
  std::getline(text, member.cannot_share);
  return member;
}

bool share_a_host(const Members& members) {
  return std::all_of(members.begin(), members.end(),
                     [&](const Member& m) { return m.loopback == members.front().loopback; });
}

std::string different_backends(const Members& members) {
  std::map<std::string, std::vector<int>> ranks;  // by backend
  for (std::size_t r = 0; r < members.size(); ++r) ranks[members[r].backend].push_back(static_cast<int>(r));
  if (ranks.size() == 1) return "";
  std::string text = "the ranks were given different backends: ";
  for (const auto& [backend, those] : ranks)
    text += names_of(members, those) + (those.size() == 1 ? " has " : " have ") + backend + "; ";
  return text + "give all ranks the same --backend and --device (auto on a GPU is nccl)";
}

std::string rank_list(const std::vector<int>& ranks, std::size_t most) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0, end = 0, entries = 0; i < ranks.size(); i = end) {
    end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - i < 3) end = i + 1;
    if (i > 0) text += end == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
    if (end - i > 1) text.append("-").append(std::to_string(ranks[end - 1]));
    if (++entries == most && end < ranks.size())
      return text.append(" and ").append(std::to_string(ranks.size() - end)).append(" more");
  }
  return text;
}

std::string names_of(const Members& members, const std::vector<int>& ranks) {
  constexpr std::size_t most = 16;  // chosen: keeps the message short
  std::string text;
  for (std::size_t i = 0; i < std::min(ranks.size(), most); ++i)
    text += (i == 0 ? "" : ", ") + members[static_cast<std::size_t>(ranks[i])].name();
  return ranks.size() > most ? text + " and " + std::to_string(ranks.size() - most) + " more" : text;
}

}  // namespace tandem::distributed
