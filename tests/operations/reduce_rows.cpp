#include <tandem/autograd/functions/sort.h>

#include "operations/table.h"

namespace tandem::testing {

namespace {

template <Tensor (*f)(const Tensor&, const Dims&, const VarOptions&)>
Tensor deviation(Call& c) {
  return f(c.in.at(0), c.dims("dims"), {c.get<double>("correction"), c.get<bool>("keepdim")});
}
template <Array (*f)(const Tensor&, const Dims&, bool)>
Tensor question(Call& c) {
  return f(c.in.at(0), c.dims("dims"), c.get<bool>("keepdim"));
}
// Searches the whole array, or along a dimension.
template <Tensor (*f)(const Tensor&), ValuesAndIndices (*along)(const Tensor&, std::int64_t, bool)>
Tensor search(Call& c) {
  if (!c.has("dim")) return f(c.in.at(0));
  const ValuesAndIndices found = along(c.in.at(0), c.get<std::int64_t>("dim"), c.get<bool>("keepdim"));
  c.more = {found.indices};
  return found.values;
}
template <Array (*f)(const Tensor&, std::optional<std::int64_t>, bool)>
Tensor position(Call& c) {
  std::optional<std::int64_t> dim;
  if (c.has("dim")) dim = c.get<std::int64_t>("dim");
  return f(c.in.at(0), dim, c.get<bool>("keepdim"));
}

}  // namespace

std::vector<Row> reduce_rows() {
  return {
      {"sum", reduction<sum>},
      {"mean", reduction<mean>},
      {"amax", reduction<amax>},
      {"amin", reduction<amin>},
      {.op = "prod", .function = reduction<prod>, .low_tolerance = 8},
      {.op = "logsumexp", .function = reduction<logsumexp>, .low_tolerance = 8},
      {.op = "var", .function = deviation<var>, .low_tolerance = 8},
      {.op = "std", .function = deviation<stddev>, .low_tolerance = 16, .also = {"stddev"}},
      {.op = "norm",
       .function =
           [](Call& c) {
             const double p = std::stod(c.get<std::string>("p"));
             return norm(c.in.at(0), p, c.dims("dims"), c.get<bool>("keepdim"));
           },
       .low_tolerance = 32},
      {"any", question<any>},
      {"all", question<all>},
      {"count_nonzero", [](Call& c) -> Tensor { return count_nonzero(c.in.at(0), c.dims("dims")); }},
      {"max", search<max, max>},
      {"min", search<min, min>},
      {"argmax", position<argmax>},
      {"argmin", position<argmin>},
      {.op = "cumprod",
       .function = [](Call& c) { return cumprod(c.in.at(0), c.get<std::int64_t>("dim")); },
       .low_tolerance = 32},
      {"diff", [](Call& c) { return diff(c.in.at(0), c.get<std::int64_t>("n"), c.get<std::int64_t>("dim")); }},
      {"cumsum", [](Call& c) { return cumsum(c.in.at(0), c.get<std::int64_t>("dim")); }},
  };
}

}  // namespace tandem::testing
