// What to say about an option that a program does not have.
#pragma once

#include <string>
#include <vector>

namespace tandem::distributed {

// "--epoch: unknown; did you mean --epochs? --help lists all options". `given` may have a value behind "=".
std::string unknown_option(const std::string& given, const std::vector<std::string>& known);

}  // namespace tandem::distributed
