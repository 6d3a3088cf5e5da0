#include <tandem/distributed/job/slurm.h>

#include "fuzz.h"

using namespace tandem;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = fuzz::text_of(data, size);
  fuzz::expect_at_most_an_error([&] { distributed::expand_nodelist(text); });
  fuzz::expect_at_most_an_error([&] { distributed::expand_tasks_per_node(text); });
  return 0;
}
