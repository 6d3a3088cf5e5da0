#include <tandem/core/base/check.h>
#include <tandem/distributed/groups/members.h>
#include <tandem/distributed/system/host_identity.h>

#include <unistd.h>

#include <algorithm>
#include <iomanip>
#include <map>
#include <sstream>

namespace tandem::distributed {
namespace {

Member member_from(const std::string& description) {
  std::istringstream text(description);
  Member member;
  (text >> member.rank).ignore();
  for (auto* line : {&member.host, &member.pid, &member.loopback, &member.backend, &member.cannot_share})
    std::getline(text, *line);
  return member;
}

}  // namespace

std::string Member::name() const { return "rank " + std::to_string(rank) + " (" + host + ", pid " + pid + ")"; }

std::string join_texts(const std::vector<std::string>& texts) {
  std::ostringstream joined;
  for (const auto& text : texts) joined << std::quoted(text);
  return joined.str();
}

std::vector<std::string> split_texts(const std::string& joined) {
  std::vector<std::string> texts;
  std::istringstream from(joined);
  for (std::string text; from >> std::quoted(text);) texts.push_back(text);
  return texts;
}

std::vector<std::string> exchange_texts(Store& store, const std::string& name, int rank, int size,
                                        const std::string& mine, Store::Timeout timeout) {
  std::vector<std::string> keys, texts;
  for (int r = 0; r < size; ++r) keys.push_back(name + "/" + std::to_string(r));
  store.set(keys[rank], mine);
  try {
    store.wait(rank == 0 ? keys : std::vector{name}, timeout);
  } catch (const Error& error) {
    int missing = 0;
    while (missing < size && store.check({keys[missing]})) ++missing;
    detail::fail("rank ", rank, " of ", size, " waited ", static_cast<double>(timeout.count()) / 1000, " s for rank ",
                 missing % size, " to join the process group: is it running, with the same MASTER_ADDR and ",
                 "MASTER_PORT? (", error.what(), ")");
  }
  if (rank != 0) return split_texts(store.get(name));
  for (const auto& key : keys) texts.push_back(store.get(key));
  store.set(name, join_texts(texts));
  return texts;
}

Members collect_members(Store& store, int rank, int size, Member mine, Store::Timeout timeout) {
  std::ostringstream text;
  text << mine.rank << '\n' << host_name() << '\n' << getpid() << '\n' << loopback_identity() << '\n';
  text << mine.backend << '\n' << mine.cannot_share;
  Members members;
  for (const auto& description : exchange_texts(store, "member", rank, size, text.str(), timeout))
    members.push_back(member_from(description));
  return members;
}

Member member_of(Store& store, int rank) { return member_from(store.get("member/" + std::to_string(rank))); }

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
