#include <tandem/autograd/ops_spatial.h>

#include "operations/table.h"

namespace tandem::testing {

std::vector<Row> spatial_rows() {
  return {
      {"conv2d",
       [](Call& c) {
         const Tensor& weight = c.in[1];
         return conv2d(
             c.in[0], weight, c.optional(2),
             {{weight.dim(2), weight.dim(3)}, c.extent("stride"), c.extent("padding"), c.extent("dilation")});
       }},
      {"max_pool2d",
       [](Call& c) {
         return max_pool2d(c.in[0], {c.extent("kernel"), c.extent("stride"), c.extent("padding"), 1});
       }},
  };
}

}  // namespace tandem::testing
