#include <tandem/distributed/ddp/unused_parameters.h>
#include <tandem/distributed/groups/members.h>

#include <map>

namespace tandem::distributed {

void fail_for_unused(ProcessGroup& group, const std::vector<std::string>& absent, std::size_t count) {
  constexpr std::size_t most = 20;  // names
  std::string mine;
  if (!absent.empty()) {
    mine = std::to_string(absent.size()) + " of " + std::to_string(count) +
           " parameters got no gradient in this backward pass: ";
    for (std::size_t i = 0; i < absent.size() && i < most; ++i) mine += (i > 0 ? ", " : "") + absent[i];
    if (absent.size() > most) mine += " and " + std::to_string(absent.size() - most) + " more";
  }
  const auto all = group.all_gather_strings(mine, "unused parameters");
  std::map<std::string, std::vector<int>> ranks;  // by their text
  for (int r = 0; r < group.size(); ++r) {
    if (!all[r].empty()) ranks[all[r]].push_back(r);
  }
  std::string text;
  for (const auto& [what, who] : ranks) text += (text.empty() ? "" : "; ") + rank_list(who) + ": " + what;
  detail::fail(text,
               ". If that is intended, Unused::skip (--unused skip) leaves them unchanged, and Unused::zero "
               "(--unused zero) counts them as zero; otherwise include them in the loss, or call "
               "set_requires_grad(false) on them before DistributedDataParallel is made");
}

}  // namespace tandem::distributed
