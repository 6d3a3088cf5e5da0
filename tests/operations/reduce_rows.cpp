#include <tandem/autograd/ops_reduce.h>

#include "operations/table.h"

namespace tandem::testing {

std::vector<Row> reduce_rows() {
  return {
      {"sum", reduction<sum>},
      {"mean", reduction<mean>},
      {"amax", reduction<amax>},
  };
}

}  // namespace tandem::testing
