// Words for what the operating system refuses about files.
#pragma once

#include <string>

namespace tandem {

// What an error number of the operating system means: "No space left on device".
std::string reason_for(int error_number);
// The same, and what to do about it where one wanted to write:
// "No space left on device; free space on that file system or write to another one".
std::string explain_file_error(int error_number);

}  // namespace tandem
