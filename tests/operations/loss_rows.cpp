#include <tandem/autograd/ops_loss.h>

#include "operations/table.h"

namespace tandem::testing {

std::vector<Row> loss_rows() {
  return {
      {"softmax", unary<softmax>},
      {"log_softmax", unary<log_softmax>},
      // A small loss is the logarithm of a number near 1, and as exact as that.
      {.op = "cross_entropy",
       .function = [](Call& c) { return cross_entropy(c.in[0], c.in[1].value()); },
       .tolerance = 256 * machine_epsilon(DType::f32),
       .keeps_dtype = false},
  };
}

}  // namespace tandem::testing
