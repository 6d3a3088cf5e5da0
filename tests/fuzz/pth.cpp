#include <tandem/core/io/pth.h>

#include "fuzz.h"
#include "touch_arrays.h"

using namespace tandem;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  fuzz::expect_at_most_an_error([&] { fuzz::touch(read_pth(file.path())); });
  return 0;
}
