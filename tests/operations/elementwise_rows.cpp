#include <tandem/autograd/ops_elementwise.h>

#include "operations/table.h"

namespace tandem::testing {

std::vector<Row> elementwise_rows() {
  return {
      {"relu", unary<relu>}, {"neg", unary<neg>},         {"exp", unary<exp>},   {"log", unary<log>},
      {"sqrt", unary<sqrt>}, {"sigmoid", unary<sigmoid>}, {"tanh", unary<tanh>}, {"add", binary<add>},
      {"sub", binary<sub>},  {"mul", binary<mul>},        {"div", binary<div>},
  };
}

}  // namespace tandem::testing
