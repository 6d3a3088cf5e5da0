// What this build of Tandem is, for --version, and the answers of programs without options of their own.
#pragma once

#include <optional>
#include <string>

namespace tandem::distributed {

// The first line has the program's name, the version and the commit. The next lines name the devices and the transports
// of this build, the processor with its vector extensions, and the extension that the kernels of this build use. The
// text ends with a line break.
std::string version_text(const std::string& program);

// For programs without options of their own. Prints `usage` for --help and version_text for --version, and an error
// that names the first argument beyond `most_arguments`. Returns the exit code; none if the program is to go on. Error
// when the text cannot be written.
std::optional<int> answer_options(int argc, char** argv, const std::string& program, const std::string& usage,
                                  int most_arguments = 0);

}  // namespace tandem::distributed
