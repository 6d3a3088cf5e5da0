// What the processes of a group need to share a data set: each one's part of it, and the folder of its files.
#pragma once

#include <tandem/data/sampler.h>
#include <tandem/distributed/groups/process_group.h>

#include <filesystem>
#include <string>

namespace tandem::distributed {

// This process's part of a data set: data::LoaderOptions::shard.
data::Shard shard_of(const ProcessGroup& group);

// The folder of the MNIST files on this host, found by one process of each host for all of them: `data` if it is not
// empty, else as data::find_mnist() says. The progress of a download goes to stderr unless `quiet`; that training would
// run on the bundled sample only is always said there. Collective; an error on one process is an error on all.
std::filesystem::path mnist_folder(ProcessGroup& group, const std::string& data = {}, bool quiet = false);

}  // namespace tandem::distributed
