#include <tandem/data/find_mnist.h>
#include <tandem/distributed/job/shared_data.h>
#include <tandem/distributed/job/together.h>
#include <tandem/distributed/system/host_identity.h>

#include <algorithm>
#include <iostream>

namespace tandem::distributed {

data::Shard shard_of(const ProcessGroup& group) { return {.rank = group.rank(), .world = group.size()}; }

std::filesystem::path mnist_folder(ProcessGroup& group, const std::string& data, bool quiet) {
  constexpr char complete = '+', sample = '-';
  const auto report = [quiet](const std::string& line) {
    if (!quiet) std::cerr << line << std::endl;
  };
  const auto find = [&] {
    const auto found = data::find_mnist({.data = data, .report = report});
    if (!found.notice.empty()) std::cerr << found.notice << std::endl;
    return (found.is_sample ? sample : complete) + found.folder.string();
  };
  const std::string found = once_per_host(group, find, download_work);
  const auto hosts = group.all_gather_strings(found[0] + host_name(), "which hosts have MNIST");
  const auto with = std::ranges::find(hosts, complete, [](const std::string& host) { return host[0]; });
  run_together(group, [&] {
    TANDEM_CHECK(found[0] == complete || with == hosts.end(), "the hosts do not have the same MNIST: rank ",
                 group.rank(), " on host ", host_name(),
                 " has only the bundled sample, 10,000 training images, and rank ", with - hosts.begin(), " on host ",
                 with->substr(1),
                 " has MNIST. Set TANDEM_DATA or --data on every "
                 "host to the folder of MNIST's four files, or on all of them to the sample in ",
                 found.substr(1));
  });
  return found.substr(1);
}

}  // namespace tandem::distributed
