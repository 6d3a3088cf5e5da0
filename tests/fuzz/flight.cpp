// Fuzzes flight records of two ranks. The first two bytes of the input say where the first record ends.
#include <tandem/distributed/launch/flight_explanation.h>

#include <algorithm>
#include <fstream>

#include "fuzz.h"

using namespace tandem;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const auto rest = fuzz::text_of(data + 2, size - 2);
  const auto first = std::min<std::size_t>(data[0] + 256 * data[1], rest.size());
  const fuzz::TemporaryPath folder;
  std::filesystem::create_directory(folder.path());
  std::ofstream(folder.path() / "rank-0", std::ios::binary) << rest.substr(0, first);
  std::ofstream(folder.path() / "rank-1", std::ios::binary) << rest.substr(first);
  fuzz::expect_at_most_an_error([&] { distributed::explain_flight(folder.path()); });
  return 0;
}
