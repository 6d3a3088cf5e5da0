#include <tandem/autograd/functions/linear.h>

#include "operations/table.h"

namespace tandem::testing {

std::vector<Row> linear_rows() {
  return {
      {"matmul", binary<matmul>},
      {"mm", binary<mm>},
      {"bmm", binary<bmm>},
      {"mv", binary<mv>},
      {"dot", binary<dot>},
      {"outer", binary<outer>},
      {"addmm",
       [](Call& c) { return addmm(c.in[0], c.in[1], c.in[2], c.get<double>("beta"), c.get<double>("alpha")); }},
      {"linear", [](Call& c) { return linear(c.in[0], c.in[1], c.optional(2)); }},
      {.op = "bilinear",
       .function = [](Call& c) { return bilinear(c.in[0], c.in[1], c.in[2], c.optional(3)); },
       .low_inputs = 4,
       .low_tolerance = 8},
  };
}

}  // namespace tandem::testing
