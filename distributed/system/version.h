// Describes this build of Tandem, for --version.
#pragma once

#include <string>

namespace tandem::distributed {

// Returns several lines. The first line has the program's name, the version and the commit. The next lines name the
// devices and the transports of this build, the processor with its vector extensions, and the extension that the
// kernels of this build use. The text ends with a line break.
std::string version_text(const std::string& program);

}  // namespace tandem::distributed
