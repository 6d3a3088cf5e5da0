// What this build of Tandem is, for --version.
#pragma once

#include <string>

namespace tandem::distributed {

// Name, version and commit in the first line; then the devices and transports that this build has, the processor with
// its vector extensions, and the extension that this build's kernels use. Ends with a line break.
std::string version_text(const std::string& program);

// For programs without options of their own: prints version_text when the only argument is --version.
bool show_version(int argc, char** argv, const std::string& program);

}  // namespace tandem::distributed
