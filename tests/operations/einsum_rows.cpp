#include <tandem/autograd/functions/einsum.h>

#include "operations/table.h"

namespace tandem::testing {

std::vector<Row> einsum_rows() {
  // In 16 bits, each product of three or more operands is rounded.
  return {{.op = "einsum",
           .function = [](Call& c) { return einsum(c.get<std::string>("equation"), c.in); },
           .low_tolerance = 8}};
}

}  // namespace tandem::testing
