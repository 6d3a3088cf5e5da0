// Where files stay that were downloaded or computed once.
#pragma once

#include <filesystem>
#include <string>

namespace tandem::data {

// An environment variable, or an empty text.
std::string environment(const char* variable);

// The folder of the user's downloads: $XDG_CACHE_HOME/tandem/NAME, or ~/.cache/tandem/NAME.
std::filesystem::path cache_folder(const std::string& name);

}  // namespace tandem::data
