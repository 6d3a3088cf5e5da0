// What the processes of a group need to share a data set: the part of each process, and the folder of the files.
#pragma once

#include <tandem/data/sampler.h>
#include <tandem/distributed/groups/process_group.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tandem::distributed {

// The part of a data set that this process reads, for data::LoaderOptions::shard.
data::Shard shard_of(const ProcessGroup& group);

// The folder of the MNIST files on this host: `data` if it is not empty, else the folder that data::find_mnist() finds.
// One process of each host looks for it, for all of them. It writes the progress of a download to stderr, unless
// `quiet`. If there is only the bundled sample to train on, it always says so on stderr. Collective; an Error on one
// process is an Error on all.
std::filesystem::path mnist_folder(ProcessGroup& group, const std::string& data = {}, bool quiet = false);

// Checks that `names`, the samples of a data set in their order, are the same on all processes. Where hosts have copies
// of the files of which some are damaged or missing, processes would otherwise divide different lists among themselves:
// some samples would be read twice and others never. `what` names the data set. `explain` is asked on the process that
// differs from rank 0 for what it knows about a name, such as the reason why it left it out. Collective; a difference
// on one process is an Error on all, which names the first sample that differs.
void check_same_samples(ProcessGroup& group, const std::string& what, const std::vector<std::string>& names,
                        const std::function<std::string(const std::string& name)>& explain = {});

}  // namespace tandem::distributed
