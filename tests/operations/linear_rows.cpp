#include <tandem/autograd/ops_linear.h>

#include "operations/table.h"

namespace tandem::testing {

std::vector<Row> linear_rows() {
  return {
      {"matmul", binary<matmul>},
      {"linear", [](Call& c) { return linear(c.in[0], c.in[1], c.optional(2)); }},
  };
}

}  // namespace tandem::testing
