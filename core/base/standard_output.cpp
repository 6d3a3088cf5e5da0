#include <tandem/core/base/check.h>
#include <tandem/core/base/standard_output.h>

#include <iostream>

namespace tandem {

void flush_standard_output() {
  std::cout.flush();
  TANDEM_CHECK(std::cout, "could not write to standard output: is the disk full?");
}

}  // namespace tandem
