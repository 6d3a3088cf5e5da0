// The options that a user has given, compared with those of other ranks and with those of an earlier start.
#pragma once

#include <tandem/distributed/groups/process_group.h>

#include <map>
#include <string>
#include <vector>

namespace tandem::distributed {

// By name, "--lr", their values; a switch has the value "on".
using GivenOptions = std::map<std::string, std::string>;

// UsageError that names the rank and the option when a rank was given other options than rank 0, but for those that say
// where it runs. Collective.
void check_same_on_all_ranks(const GivenOptions& given, ProcessGroup& group);

// "--lr=0.1" and a line break for each, for a checkpoint; values as utf8_escaped() gives them.
std::string text_of(const GivenOptions& given);

// A line for each option that changes the numbers of a training and is not as in the text of an earlier start.
std::vector<std::string> changes_since(const std::string& earlier, const GivenOptions& given);

}  // namespace tandem::distributed
