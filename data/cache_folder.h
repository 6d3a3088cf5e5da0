// The folder for files that are downloaded or computed once.
#pragma once

#include <filesystem>
#include <string>

namespace tandem::data {

// Returns the value of an environment variable, or an empty string if it is not set.
std::string environment(const char* variable);

// The user's cache folder: $XDG_CACHE_HOME/tandem/NAME, or ~/.cache/tandem/NAME.
std::filesystem::path cache_folder(const std::string& name);

}  // namespace tandem::data
