#include <tandem/data/find_mnist.h>
#include <tandem/distributed/job/shared_data.h>
#include <tandem/distributed/job/together.h>

#include <iostream>

namespace tandem::distributed {

data::Shard shard_of(const ProcessGroup& group) { return {.rank = group.rank(), .world = group.size()}; }

std::filesystem::path mnist_folder(ProcessGroup& group, const std::string& data, bool quiet) {
  const auto report = [quiet](const std::string& line) {
    if (!quiet) std::cerr << line << std::endl;
  };
  const auto find = [&] {
    const auto found = data::find_mnist({.data = data, .report = report});
    if (!found.notice.empty()) std::cerr << found.notice << std::endl;
    return found.folder.string();
  };
  return once_per_host(group, find, download_work);
}

}  // namespace tandem::distributed
