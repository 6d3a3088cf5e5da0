#include <tandem/autograd/ops_shape.h>

#include "operations/table.h"

namespace tandem::testing {

std::vector<Row> shape_rows() {
  return {
      {"reshape", [](Call& c) { return reshape(c.in[0], c.dims("shape")); }},
      {"flatten", [](Call& c) { return flatten(c.in[0], c.attributes.at("from_dim")); }},
      {"permute", [](Call& c) { return permute(c.in[0], c.dims("order")); }},
      {"transpose",
       [](Call& c) {
         const Dims dims = c.dims("dims");
         return transpose(c.in[0], dims[0], dims[1]);
       }},
  };
}

}  // namespace tandem::testing
