#include <tandem/autograd/functions/recurrent.h>
#include <tandem/autograd/functions/shape.h>
#include <tandem/autograd/functions/views.h>

#include "operations/table.h"

namespace tandem::testing {

namespace {

RecurrentCell cell_named(const std::string& name) {
  if (name == "relu") return RecurrentCell::relu;
  if (name == "lstm") return RecurrentCell::lstm;
  if (name == "gru") return RecurrentCell::gru;
  return RecurrentCell::tanh;
}

// Returns all results as rows of one table.
Tensor all_of_recurrence(Call& c) {
  const bool biased = c.get<bool>("biased");
  const std::size_t first = biased ? 3 : 2;
  const auto result =
      recurrence(cell_named(c.get<std::string>("kind")), c.in[0], c.in[1], biased ? c.in[2] : Tensor(),
                 {.h_0 = c.optional(first), .c_0 = c.optional(first + 1), .reverse = c.get<bool>("reverse")});
  std::vector<Tensor> rows{flatten(result.output, 0, 1), result.h_n};
  if (result.c_n.defined()) rows.push_back(result.c_n);
  return cat(rows);
}

}  // namespace

std::vector<Row> recurrent_rows() {
  return {
      // In 16 bits, each step rounds the state.
      {.op = "recurrence", .function = all_of_recurrence, .low_inputs = 5, .low_tolerance = 16},
  };
}

}  // namespace tandem::testing
