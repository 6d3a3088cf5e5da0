// The table of operations. A row says how to call one operation. tests/golden/ops_FAMILY.safetensors has cases with
// PyTorch's values. Every test of table_test.cpp runs for every row, on every available device. To test a new
// operation, add cases to tests/golden/operations/FAMILY.py and a row to FAMILY_rows.cpp.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/array/array.h>
#include <tandem/core/formulas/window.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "support/arrays.h"

namespace tandem::testing {

// One call of an operation, which a row's function gets.
struct Call {
  std::vector<Tensor> in;
  const nlohmann::json& attributes;
  Array running_mean, running_var;  // of batch norms; training changes them
  // Additional results without a gradient, such as indices. Their golden values are CASE/more0, CASE/more1, ...
  std::vector<Array> more = {};

  template <class T>
  T get(const char* key) const {
    return attributes.at(key).get<T>();
  }
  bool has(const char* key) const { return attributes.contains(key); }
  Dims dims(const char* key) const {
    Dims result;
    for (const auto& v : attributes.at(key)) result.push_back(v.get<std::int64_t>());
    return result;
  }
  Extent extent(const char* key) const { return {attributes.at(key).at(0), attributes.at(key).at(1)}; }
  // Returns input `i`, or an undefined Tensor if the case has fewer inputs.
  Tensor optional(std::size_t i) const { return i < in.size() ? in[i] : Tensor(); }
};

struct Row {
  std::string op;  // the name in the golden cases and in the header
  Tensor (*function)(Call&);
  std::string variant = "";  // distinguishes two rows of one op
  // The tolerance of the golden comparison, relative to the largest expected magnitude. 64 units in the last place are
  // about 1e-5.
  double tolerance = 64 * machine_epsilon(DType::f32);
  // The number of inputs, from the first one, that may be 16-bit. With 0, the operation is not tested in 16 bits.
  int low_inputs = 3;
  // The tolerance in 16 bits, in units in the last place of the largest value.
  double low_tolerance = 4;
  // Whether the result has the dtype of 16-bit inputs. Otherwise it is f32.
  bool keeps_dtype = true;
  // Whether gradients and results can be compared for a fuzzer's inputs. They must not depend on the order of ties or
  // on random numbers.
  bool is_fuzzed = true;

  // Other operations in the headers that this row runs.
  std::vector<std::string> also = {};

  std::string name() const { return op + (variant.empty() ? "" : "_" + variant); }
};

// The rows of a family, which are the operations of autograd/functions/FAMILY.h.
std::vector<Row> attention_rows();
std::vector<Row> distance_rows();
std::vector<Row> dropout_rows();
std::vector<Row> einsum_rows();
std::vector<Row> elementwise_rows();
std::vector<Row> index_rows();
std::vector<Row> linear_rows();
std::vector<Row> loss_rows();
std::vector<Row> norm_rows();
std::vector<Row> recurrent_rows();
std::vector<Row> reduce_rows();
std::vector<Row> shape_rows();
std::vector<Row> sort_rows();
std::vector<Row> spatial_rows();

// Functions of rows for the most common signatures.
template <Tensor (*f)(const Tensor&)>
Tensor unary(Call& c) {
  return f(c.in.at(0));
}
template <Tensor (*f)(const Tensor&, const Tensor&)>
Tensor binary(Call& c) {
  return f(c.in.at(0), c.in.at(1));
}
template <Tensor (*f)(const Tensor&, const Dims&, bool)>
Tensor reduction(Call& c) {
  return f(c.in.at(0), c.dims("dims"), c.attributes.at("keepdim"));
}

}  // namespace tandem::testing
