// Lets the processes of a group share a data set: determines the shard of each process, and the folder of the files.
#pragma once

#include <tandem/data/sampler.h>
#include <tandem/distributed/groups/process_group.h>

#include <filesystem>
#include <string>

namespace tandem::distributed {

// Returns the part of a data set that this process reads, for data::LoaderOptions::shard.
data::Shard shard_of(const ProcessGroup& group);

// Returns the folder of the MNIST files on this host: `data` if it is not empty, else the folder that
// data::find_mnist() finds. One process of each host looks for the folder, on behalf of all its processes. It writes
// the progress of a download to stderr, unless `quiet` is set. If only the bundled sample is available, it says so on
// stderr even then. Throws an Error if only some hosts have MNIST. The call is collective: if it throws on one process,
// it throws on all.
std::filesystem::path mnist_folder(ProcessGroup& group, const std::string& data = {}, bool quiet = false);

}  // namespace tandem::distributed
