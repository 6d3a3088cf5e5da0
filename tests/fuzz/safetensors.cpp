#include <tandem/core/io/safetensors.h>

#include "fuzz.h"

using namespace tandem;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  fuzz::expect_at_most_an_error([&] { read_safetensors(file.path()); });
  return 0;
}
