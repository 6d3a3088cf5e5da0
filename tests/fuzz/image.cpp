#include <tandem/data/images/image.h>

#include "fuzz.h"

using namespace tandem;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  fuzz::expect_at_most_an_error([&] { data::read_image(file.path()); });
  return 0;
}
