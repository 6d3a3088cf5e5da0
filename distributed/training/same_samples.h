// Checks that the processes of a group have the same samples.
#pragma once

#include <tandem/data/dataset.h>
#include <tandem/distributed/groups/process_group.h>

#include <functional>
#include <string>
#include <vector>

namespace tandem::distributed {

// Checks that `names`, the ordered samples of a data set, are the same on all processes. If hosts have their own copies
// of the files, and some files are damaged or missing, the processes would otherwise divide different lists: they would
// read some samples twice and others never. `what` names the data set. On a process that differs from rank 0, the
// function calls `explain` with a missing name. It may return the reason why the process skipped that sample.
// Collective. If one process differs, all throw an Error that names the first sample that differs.
void check_same_samples(ProcessGroup& group, const std::string& what, const std::vector<std::string>& names,
                        const std::function<std::string(const std::string& name)>& explain = {});

// Checks that the data sets of all processes have the same size, and that some samples are the same: the first, the
// last, and others at equal distances, 3 to 256 samples and about 1 MiB in total. Each sample is made twice. That takes
// 20 ms for MNIST in memory (two ranks on an AMD EPYC), and the time to read six photographs for photographs in files.
//
// Whole numbers, such as classes, must be equal. For other numbers, the mean magnitudes must agree within 2 %, because
// processors and image decoders round differently. Inputs or targets that are random or unreadable are not compared.
// `what` names the samples ("training images"). Collective. If a process differs, all processes throw an Error that
// names the ranks, their hosts and their sizes.
void check_same_samples(ProcessGroup& group, const std::string& what, const data::Dataset& dataset);

}  // namespace tandem::distributed
