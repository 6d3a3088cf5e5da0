// Handles mistakes in the options of the programs and the launcher.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace tandem::distributed {

// Returns "--epoch: unknown; did you mean --epochs? --help lists all options", for the first option that `app` could
// not parse.
std::string unknown_option(const CLI::App& app);

// Returns whether `argument` is "--name=", where --name takes a value, and removes its '='. The caller inserts an empty
// argument after it: CLI11 would use the next argument as the value. Scripts pass "--name=" if a variable is unset.
bool cut_empty_value(const CLI::App& app, std::string& argument);

}  // namespace tandem::distributed
