// What the processes of a group need to share a data set: the part of each process, and the folder of the files.
#pragma once

#include <tandem/data/sampler.h>
#include <tandem/distributed/groups/process_group.h>

#include <filesystem>
#include <string>

namespace tandem::distributed {

// The part of a data set that this process reads, for data::LoaderOptions::shard.
data::Shard shard_of(const ProcessGroup& group);

// The folder of the MNIST files on this host: `data` if it is not empty, else the folder that data::find_mnist() finds.
// One process of each host looks for it, for all of them. It writes the progress of a download to stderr, unless
// `quiet`. If there is only the bundled sample to train on, it always says so on stderr. Error if that is so on some
// hosts only. Collective; an Error on one process is an Error on all.
std::filesystem::path mnist_folder(ProcessGroup& group, const std::string& data = {}, bool quiet = false);

}  // namespace tandem::distributed
