// Compares the options that the user has set with the options of other ranks and of an earlier start.
#pragma once

#include <tandem/distributed/groups/process_group.h>

#include <map>
#include <string>
#include <vector>

namespace tandem::distributed {

// The values of the options, by name ("--lr"). A switch has the value "on".
using GivenOptions = std::map<std::string, std::string>;

// Throws a UsageError that names the rank and the option if a rank has different options than rank 0. Options that say
// where the rank runs may differ. Collective.
void check_same_on_all_ranks(const GivenOptions& given, ProcessGroup& group);

// Returns "--lr=0.1" and a line break for each option, for a checkpoint. The values are escaped with utf8_escaped().
std::string text_of(const GivenOptions& given);

// Returns a line for each option that affects the numbers of a training and differs from the text of an earlier start.
std::vector<std::string> changes_since(const std::string& earlier, const GivenOptions& given);

}  // namespace tandem::distributed
