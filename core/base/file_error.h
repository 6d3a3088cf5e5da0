// Messages for file errors of the operating system.
#pragma once

#include <string>

namespace tandem {

// Returns the meaning of an errno value: "No space left on device".
std::string reason_for(int error_number);
// Returns the meaning followed by advice for code that tried to write:
// "No space left on device; free space on that file system or write to another one".
std::string explain_file_error(int error_number);

}  // namespace tandem
