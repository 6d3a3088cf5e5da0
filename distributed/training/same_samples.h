// Checks that the processes of a group have the same samples.
#pragma once

#include <tandem/data/dataset.h>
#include <tandem/distributed/groups/process_group.h>

#include <functional>
#include <string>
#include <vector>

namespace tandem::distributed {

// Checks that `names`, the samples of a data set in their order, are the same on all processes. Where hosts have copies
// of the files of which some are damaged or missing, processes would otherwise divide different lists among themselves:
// some samples would be read twice and others never. `what` names the data set. `explain` is asked on the process that
// differs from rank 0 for what it knows about a name, such as the reason why it left it out. Collective; a difference
// on one process is an Error on all, which names the first sample that differs.
void check_same_samples(ProcessGroup& group, const std::string& what, const std::vector<std::string>& names,
                        const std::function<std::string(const std::string& name)>& explain = {});

// Checks that the data sets of all processes have the same size, and that some samples are alike: the first, the last,
// and others at equal distances, 3 to 256 of them and about 1 MiB in all. Each is made twice. For MNIST in memory that
// takes 20 ms (two ranks on an AMD EPYC), for photographs in files as long as reading six of them.
//
// Whole numbers, such as classes, must be equal. Others must agree in their mean size within 2 %, because processors
// and decoders of pictures round differently. Inputs or targets that are random, or that can't be read, are not
// compared. `what` names the samples ("training images"). Collective; a difference is an Error on all processes, which
// names the ranks, their hosts and their sizes.
void check_same_samples(ProcessGroup& group, const std::string& what, const data::Dataset& dataset);

}  // namespace tandem::distributed
