#include <tandem/core/io/crc32.h>
#include <tandem/distributed/job/together.h>
#include <tandem/distributed/system/host_identity.h>
#include <tandem/distributed/training/same_samples.h>

#include <algorithm>
#include <functional>
#include <sstream>

namespace tandem::distributed {

void check_same_samples(ProcessGroup& group, const std::string& what, const std::vector<std::string>& names,
                        const std::function<std::string(const std::string& name)>& explain) {
  // Rank 0 tells its names only where the checksums differ. Names of files hold no NUL.
  std::string mine;
  for (const auto& name : names) mine += name + '\0';
  const std::string digest = std::to_string(names.size()) + ' ' + std::to_string(crc32_of(mine.data(), mine.size()));
  const auto digests = group.all_gather_strings(digest, "the samples of " + what);
  if (std::adjacent_find(digests.begin(), digests.end(), std::not_equal_to<>()) == digests.end()) return;
  const std::string first = group.broadcast_string(mine, 0, "the names of " + what);
  const std::string rank_0 = group.broadcast_string(host_name(), 0, "the host of rank 0");
  run_together(group, [&] {
    if (digest == digests[0]) return;
    std::vector<std::string> others;
    std::istringstream parts(first);
    for (std::string name; std::getline(parts, name, '\0');) others.push_back(name);
    std::size_t i = 0;
    while (i < names.size() && i < others.size() && names[i] == others[i]) ++i;
    const auto at = [i](const std::vector<std::string>& list) {
      return i < list.size() ? "'" + list[i] + "'" : "none";
    };
    std::string reason = explain && i < others.size() ? explain(others[i]) : "";
    if (!reason.empty()) reason = "; '" + others[i] + "' was left out here: " + reason;
    detail::fail("the processes do not have the same samples of ", what, ": rank ", group.rank(), " on host ",
                 host_name(), " has ", names.size(), ", rank 0 on host ", rank_0, " has ", others.size(),
                 ". The first difference is at sample ", i, ": ", at(names), " and ", at(others), reason,
                 ". Copy the files from one host to the other");
  });
}

}  // namespace tandem::distributed
