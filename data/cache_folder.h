// Where files stay that were downloaded or computed once.
#pragma once

#include <filesystem>
#include <string>

namespace tandem::data {

// The folder of the user's downloads: $XDG_CACHE_HOME/tandem/NAME, or ~/.cache/tandem/NAME.
std::filesystem::path cache_folder(const std::string& name);

}  // namespace tandem::data
