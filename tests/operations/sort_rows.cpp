#include <tandem/autograd/functions/sort.h>

#include "operations/table.h"

namespace tandem::testing {

namespace {

Tensor with_indices(Call& c, const ValuesAndIndices& found) {
  c.more = {found.indices};
  return found.values;
}

}  // namespace

std::vector<Row> sort_rows() {
  return {
      {"sort",
       [](Call& c) {
         return with_indices(c, sort(c.in.at(0), c.get<std::int64_t>("dim"),
                                     {.descending = c.get<bool>("descending"), .stable = true}));
       }},
      {"argsort",
       [](Call& c) -> Tensor {
         return argsort(c.in.at(0), c.get<std::int64_t>("dim"),
                        {.descending = c.get<bool>("descending"), .stable = true});
       }},
      {"median",
       [](Call& c) {
         if (!c.has("dim")) return median(c.in.at(0));
         return with_indices(c, median(c.in.at(0), c.get<std::int64_t>("dim"), c.get<bool>("keepdim")));
       }},
      {"topk",
       [](Call& c) {
         return with_indices(c, topk(c.in.at(0), c.get<std::int64_t>("k"), c.get<std::int64_t>("dim"),
                                     {.largest = c.get<bool>("largest")}));
       }},
  };
}

}  // namespace tandem::testing
