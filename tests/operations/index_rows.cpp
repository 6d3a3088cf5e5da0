#include <tandem/autograd/functions/index.h>

#include "operations/table.h"

namespace tandem::testing {

namespace {

std::int64_t dim_of(Call& c) { return c.get<std::int64_t>("dim"); }

}  // namespace

std::vector<Row> index_rows() {
  return {
      {"index_select", [](Call& c) { return index_select(c.in[0], dim_of(c), c.in[1].value()); }},
      {"gather", [](Call& c) { return gather(c.in[0], dim_of(c), c.in[1].value()); }},
      {"take_along_dim",
       [](Call& c) {
         return c.has("dim") ? take_along_dim(c.in[0], c.in[1].value(), dim_of(c))
                             : take_along_dim(c.in[0], c.in[1].value());
       }},
      // A fuzzer's indices may be equal, and it is not specified which value then remains.
      {.op = "scatter",
       .function =
           [](Call& c) {
             return c.has("value") ? scatter(c.in[0], dim_of(c), c.in[1].value(), c.get<double>("value"))
                                   : scatter(c.in[0], dim_of(c), c.in[1].value(), c.in[2]);
           },
       .is_fuzzed = false},
      {"scatter_add", [](Call& c) { return scatter_add(c.in[0], dim_of(c), c.in[1].value(), c.in[2]); }},
      {"index_add",
       [](Call& c) { return index_add(c.in[0], dim_of(c), c.in[1].value(), c.in[2], c.get<double>("alpha")); }},
      {"masked_fill", [](Call& c) { return masked_fill(c.in[0], c.in[1].value(), c.get<double>("value")); }},
      {"masked_select", [](Call& c) { return masked_select(c.in[0], c.in[1].value()); }},
      {.op = "nonzero", .function = [](Call& c) { return Tensor(nonzero(c.in[0].value())); }, .low_inputs = 0},
      {"one_hot", [](Call& c) { return Tensor(one_hot(c.in[0].value(), c.get<std::int64_t>("num_classes"))); }},
      {"embedding",
       [](Call& c) {
         std::optional<std::int64_t> padding_idx;
         if (c.has("padding_idx")) padding_idx = c.get<std::int64_t>("padding_idx");
         return embedding(c.in[0].value(), c.in[1], padding_idx);
       }},
  };
}

}  // namespace tandem::testing
