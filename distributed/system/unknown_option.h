// The error message for an option that a program does not have.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace tandem::distributed {

// Returns "--epoch: unknown; did you mean --epochs? --help lists all options", for the first option that `app` could
// not parse.
std::string unknown_option(const CLI::App& app);

}  // namespace tandem::distributed
