// flush_standard_output: the end of a program that prints results.
#pragma once

namespace tandem {

// Writes what std::cout still holds. Error when something that the program printed there could not be written, now or
// earlier. A program that does not ask ends with 0 on a full disk, and what it printed is lost.
void flush_standard_output();

}  // namespace tandem
