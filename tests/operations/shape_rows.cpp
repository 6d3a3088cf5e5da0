#include <tandem/autograd/functions/elementwise.h>
#include <tandem/autograd/functions/shape.h>

#include <map>

#include "operations/table.h"

namespace tandem::testing {

namespace {

// Each part is multiplied by a different number, so that every gradient matters.
Tensor weighted(Call& c, const std::vector<Tensor>& parts) {
  const std::size_t first = c.has("first") ? c.get<std::size_t>("first") : 0;
  const std::size_t last = c.has("last") ? c.get<std::size_t>("last") : parts.size();
  std::vector<Tensor> all;
  for (std::size_t i = first; i < std::min(last, parts.size()); ++i)
    all.push_back(flatten(parts[i]) * static_cast<double>(i - first + 1));
  return cat(all);
}

PadMode pad_mode(const std::string& name) {
  static const std::map<std::string, PadMode> modes{{"constant", PadMode::constant},
                                                    {"reflect", PadMode::reflect},
                                                    {"replicate", PadMode::replicate},
                                                    {"circular", PadMode::circular}};
  return modes.at(name);
}

std::int64_t number(Call& c, const char* key) { return c.get<std::int64_t>(key); }

}  // namespace

std::vector<Row> shape_rows() {
  return {
      {"view", [](Call& c) { return view(contiguous(c.in[0]), c.dims("shape")); }},
      {"reshape", [](Call& c) { return reshape(c.in[0], c.dims("shape")); }},
      {"flatten",
       [](Call& c) { return flatten(c.in[0], number(c, "from_dim"), c.has("to_dim") ? number(c, "to_dim") : -1); }},
      {"unflatten", [](Call& c) { return unflatten(c.in[0], number(c, "dim"), c.dims("sizes")); }},
      {"permute", [](Call& c) { return permute(c.in[0], c.dims("order")); }},
      {"transpose", [](Call& c) { return transpose(c.in[0], c.dims("dims")[0], c.dims("dims")[1]); }},
      {"t", unary<t>},
      {"movedim", [](Call& c) { return movedim(c.in[0], c.dims("dims")[0], c.dims("dims")[1]); }},
      {"expand", [](Call& c) { return expand(c.in[0], c.dims("shape")); }},
      {"squeeze", [](Call& c) { return c.has("dims") ? squeeze(c.in[0], c.dims("dims")) : squeeze(c.in[0]); }},
      {"unsqueeze", [](Call& c) { return unsqueeze(c.in[0], number(c, "dim")); }},
      {"slice",
       [](Call& c) {
         return slice(c.in[0], number(c, "dim"), number(c, "begin"), number(c, "end"), number(c, "step"));
       }},
      {"narrow", [](Call& c) { return narrow(c.in[0], number(c, "dim"), number(c, "start"), number(c, "length")); }},
      {"select", [](Call& c) { return select(c.in[0], number(c, "dim"), number(c, "index")); }},
      {"diagonal",
       [](Call& c) { return diagonal(c.in[0], number(c, "offset"), c.dims("dims")[0], c.dims("dims")[1]); }},
      {"split",
       [](Call& c) {
         const auto parts = c.has("size") ? split(c.in[0], number(c, "size"), number(c, "dim"))
                                          : split(c.in[0], c.get<std::vector<std::int64_t>>("sizes"), number(c, "dim"));
         return weighted(c, parts);
       }},
      {"chunk", [](Call& c) { return weighted(c, chunk(c.in[0], number(c, "count"), number(c, "dim"))); }},
      {"unbind", [](Call& c) { return weighted(c, unbind(c.in[0], number(c, "dim"))); }},
      {.op = "cat", .function = [](Call& c) { return cat(c.in, number(c, "dim")); }, .low_inputs = 100},
      {.op = "stack", .function = [](Call& c) { return stack(c.in, number(c, "dim")); }, .low_inputs = 100},
      {"pad",
       [](Call& c) {
         return pad(c.in[0], c.get<ops::Padding>("padding"), pad_mode(c.get<std::string>("mode")),
                    c.get<double>("value"));
       }},
      {"meshgrid",
       [](Call& c) {
         const bool is_xy = c.get<std::string>("indexing") == "xy";
         return weighted(c, meshgrid(c.in, is_xy ? Indexing::xy : Indexing::ij));
       }},
      {"tile", [](Call& c) { return tile(c.in[0], c.dims("repeats")); }},
      {"swapaxes", [](Call& c) { return swapaxes(c.in[0], c.dims("dims")[0], c.dims("dims")[1]); }},
      {"roll", [](Call& c) { return roll(c.in[0], c.dims("shifts"), c.dims("dims")); }},
      {"flip", [](Call& c) { return flip(c.in[0], c.dims("dims")); }},
      {"repeat", [](Call& c) { return repeat(c.in[0], c.dims("repeats")); }},
      {"repeat_interleave",
       [](Call& c) {
         return c.has("dim") ? repeat_interleave(c.in[0], number(c, "repeats"), number(c, "dim"))
                             : repeat_interleave(c.in[0], number(c, "repeats"));
       }},
      {"tril", [](Call& c) { return tril(c.in[0], number(c, "diagonal")); }},
      {"triu", [](Call& c) { return triu(c.in[0], number(c, "diagonal")); }},
      {"contiguous", unary<contiguous>},
      {"clone", unary<clone>},
  };
}

}  // namespace tandem::testing
