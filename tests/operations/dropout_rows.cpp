#include <tandem/autograd/functions/dropout.h>

#include "operations/table.h"

namespace tandem::testing {

std::vector<Row> dropout_rows() {
  return {
      {.op = "dropout",
       .function = [](Call& c) { return dropout(c.in[0], c.get<double>("p"), c.get<bool>("training")); },
       .is_fuzzed = false},
      {.op = "dropout2d",
       .function = [](Call& c) { return dropout2d(c.in[0], c.get<double>("p"), c.get<bool>("training")); },
       .is_fuzzed = false},
  };
}

}  // namespace tandem::testing
