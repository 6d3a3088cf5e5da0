#include <tandem/autograd/functions/distance.h>

#include "operations/table.h"

namespace tandem::testing {

namespace {

double power(const Call& c) { return std::stod(c.get<std::string>("p")); }

}  // namespace

std::vector<Row> distance_rows() {
  // In 16 bits, intermediate results are rounded too.
  return {
      {.op = "normalize",
       .function =
           [](Call& c) { return normalize(c.in[0], power(c), c.get<std::int64_t>("dim"), c.get<double>("eps")); },
       .low_tolerance = 32},
      {.op = "cosine_similarity",
       .function =
           [](Call& c) {
             return cosine_similarity(c.in[0], c.in[1], c.get<std::int64_t>("dim"), c.get<double>("eps"));
           },
       .low_tolerance = 32},
      {.op = "pairwise_distance",
       .function = [](Call& c) { return pairwise_distance(c.in[0], c.in[1], power(c), 1e-6, c.get<bool>("keepdim")); },
       .low_tolerance = 32},
      {.op = "cdist", .function = [](Call& c) { return cdist(c.in[0], c.in[1], power(c)); }, .low_tolerance = 32},
  };
}

}  // namespace tandem::testing
