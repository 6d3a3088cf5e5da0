// The table of operations: a row says how to call one, tests/golden/ops.safetensors holds cases of it with PyTorch's
// values, and every test below runs for every row. To test a new operation, add cases to make_golden.py and a row here.
#include <tandem/autograd/gradcheck.h>
#include <tandem/autograd/ops.h>

#include <gtest/gtest.h>

#include <set>

#include "support/arrays.h"
#include "support/golden.h"

namespace tandem {
namespace {

using nlohmann::json;
using testing::expect_close;
using testing::machine_epsilon;
using testing::strided;

const testing::Golden& golden() {
  static const testing::Golden instance("ops.safetensors");
  return instance;
}

// One call of an operation: what a row's function gets.
struct Call {
  std::vector<Tensor> in;
  const json& attributes;
  Array running_mean, running_var;  // of batch norms; training moves them

  Dims dims(const char* key) const {
    Dims result;
    for (const auto& v : attributes.at(key)) result.push_back(v.get<std::int64_t>());
    return result;
  }
  Extent extent(const char* key) const { return {attributes.at(key).at(0), attributes.at(key).at(1)}; }
  bool keepdim() const { return attributes.at("keepdim"); }
};

struct Row {
  std::string op;  // as the golden cases name it
  Tensor (*function)(Call&);
  std::string variant = "";  // tells two rows of one op apart
  // Of the golden comparison, in units of the largest expected magnitude. 64 units in the last place: about 1e-5.
  double tolerance = 64 * machine_epsilon(DType::f32);
  // How many of the inputs, from the first, may be 16-bit.
  int low_inputs = 3;

  std::string name() const { return op + (variant.empty() ? "" : "_" + variant); }
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name(); }

template <Tensor (*f)(const Tensor&)>
Tensor unary(Call& c) {
  return f(c.in[0]);
}
template <Tensor (*f)(const Tensor&, const Tensor&)>
Tensor binary(Call& c) {
  return f(c.in[0], c.in[1]);
}
template <Tensor (*f)(const Tensor&, const Dims&, bool)>
Tensor reduction(Call& c) {
  return f(c.in[0], c.dims("dims"), c.keepdim());
}

Tensor normalise(Call& c, BatchNormFusion fusion) {
  BatchNormState state{c.running_mean, c.running_var, c.attributes.at("training"),
                       c.attributes.at("momentum"), c.attributes.at("eps")};
  return batch_norm(c.in[0], c.in[1], c.in[2], state, fusion);
}

Tensor third_or_none(const Call& c) { return c.in.size() > 2 ? c.in[2] : Tensor(); }

const Window two_by_two{2, 2, 0, 1};

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {"relu", unary<relu>},
      {"neg", unary<neg>},
      {"exp", unary<exp>},
      {"log", unary<log>},
      {"sqrt", unary<sqrt>},
      {"sigmoid", unary<sigmoid>},
      {"tanh", unary<tanh>},
      {"add", binary<add>},
      {"sub", binary<sub>},
      {"mul", binary<mul>},
      {"div", binary<div>},
      {"sum", reduction<sum>},
      {"mean", reduction<mean>},
      {"max", reduction<amax>},
      {"matmul", binary<matmul>},
      {"linear", [](Call& c) { return linear(c.in[0], c.in[1], third_or_none(c)); }},
      {"conv2d",
       [](Call& c) {
         const Tensor& weight = c.in[1];
         return conv2d(
             c.in[0], weight, third_or_none(c),
             {{weight.dim(2), weight.dim(3)}, c.extent("stride"), c.extent("padding"), c.extent("dilation")});
       }},
      {"max_pool2d",
       [](Call& c) {
         return max_pool2d(c.in[0], {c.extent("kernel"), c.extent("stride"), c.extent("padding"), 1});
       }},
      // Batch norms keep weight and bias in f32.
      {.op = "batch_norm", .function = [](Call& c) { return normalise(c, {}); }, .low_inputs = 1},
      {.op = "batch_norm_relu",
       .function = [](Call& c) { return normalise(c, {.relu = true}); },
       .variant = "fused",
       .low_inputs = 1},
      {.op = "batch_norm_relu",
       .function = [](Call& c) { return relu(normalise(c, {})); },
       .variant = "in_steps",
       .low_inputs = 1},
      {.op = "batch_norm_relu_max_pool2d",
       .function = [](Call& c) { return normalise(c, {.relu = true, .max_pool_2x2 = true}); },
       .variant = "fused",
       .low_inputs = 1},
      // Not in 16 bits: rounding between the steps makes equals of unequal values, and another one becomes the maximum.
      {.op = "batch_norm_relu_max_pool2d",
       .function = [](Call& c) { return max_pool2d(relu(normalise(c, {})), two_by_two); },
       .variant = "in_steps",
       .low_inputs = 0},
      {.op = "batch_norm_relu_max_pool2d",
       .function = [](Call& c) { return max_pool2d(normalise(c, {.relu = true}), two_by_two); },
       .variant = "pool_apart",
       .low_inputs = 0},
      {"softmax", unary<softmax>},
      {"log_softmax", unary<log_softmax>},
      {"cross_entropy", [](Call& c) { return cross_entropy(c.in[0], c.in[1].value()); }},
      {"reshape", [](Call& c) { return reshape(c.in[0], c.dims("shape")); }},
      {"flatten", [](Call& c) { return flatten(c.in[0], c.attributes.at("from_dim")); }},
      {"permute", [](Call& c) { return permute(c.in[0], c.dims("order")); }},
      {"transpose",
       [](Call& c) {
         const Dims dims = c.dims("dims");
         return transpose(c.in[0], dims[0], dims[1]);
       }},
      {"permute_reshape_mul",
       [](Call& c) { return mul(reshape(permute(c.in[0], c.dims("order")), c.dims("shape")), c.in[1]); }},
  };
  return table;
}

struct Result {
  Array output;
  std::vector<Array> gradients;  // undefined for integer inputs
  Array running_mean, running_var;
};

class Operation : public ::testing::TestWithParam<Row> {
 protected:
  struct Case {
    std::string name;
    json attributes;
    std::vector<Array> inputs;
    Array grad_output;

    const Array& value(const std::string& what) const { return golden()[name + '/' + what]; }
    bool has(const std::string& what) const { return golden().has(name + '/' + what); }
  };

  static std::vector<Case> cases() {
    std::vector<Case> found;
    for (const auto& [name, attributes] : golden().cases()) {
      if (attributes.at("op") != GetParam().op) continue;
      Case c{name, attributes, {}, golden()[name + "/grad_output"]};
      for (int i = 0; c.has("input" + std::to_string(i)); ++i)
        c.inputs.push_back(c.value("input" + std::to_string(i)));
      found.push_back(std::move(c));
    }
    return found;
  }

  // The call that the case describes, on these inputs.
  static Call call(const Case& c, const std::vector<Array>& inputs) {
    Call result{{}, c.attributes, {}, {}};
    for (const Array& input : inputs) result.in.emplace_back(input, is_floating(input.dtype()));
    if (c.has("running_mean")) {
      const DType dtype = inputs[0].dtype() == DType::f64 ? DType::f64 : DType::f32;
      result.running_mean = c.value("running_mean").clone().to(dtype);
      result.running_var = c.value("running_var").clone().to(dtype);
    }
    return result;
  }

  static Result run(const Case& c, const std::vector<Array>& inputs, const Array& grad_output) {
    Call made = call(c, inputs);
    const Tensor output = GetParam().function(made);
    output.backward({.gradient = grad_output.to(output.dtype())});
    Result result{output.value(), {}, made.running_mean, made.running_var};
    for (const Tensor& input : made.in) result.gradients.push_back(input.grad());
    return result;
  }

  static void expect_golden(const Case& c, const Result& result) {
    const double tolerance = GetParam().tolerance;
    expect_close(c.value("output"), result.output, tolerance, c.name + ": output");
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      const std::string grad = "grad" + std::to_string(i);
      if (c.has(grad)) expect_close(c.value(grad), result.gradients[i], tolerance, c.name + ": " + grad);
      else EXPECT_FALSE(result.gradients[i].defined()) << c.name;
    }
    for (const auto& [name, array] :
         {std::pair("running_mean", result.running_mean), {"running_var", result.running_var}})
      if (c.has(name))
        expect_close(c.value(std::string(name) + "_after"), array, tolerance, c.name + ": " + name);
  }
};

TEST_P(Operation, EqualsPyTorch) {
  const auto all = cases();
  ASSERT_FALSE(all.empty());
  for (const Case& c : all) expect_golden(c, run(c, c.inputs, c.grad_output));
}

TEST_P(Operation, TakesAnyStrides) {
  for (const Case& c : cases()) {
    std::vector<Array> views;
    for (const Array& input : c.inputs) views.push_back(strided(input));
    expect_golden(c, run(c, views, strided(c.grad_output)));
  }
}

TEST_P(Operation, TakesChannelsLast) {
  const auto relaid = [](const Array& a) { return a.rank() == 4 ? a.channels_last() : a; };
  for (const Case& c : cases()) {
    std::vector<Array> inputs;
    for (const Array& input : c.inputs) inputs.push_back(relaid(input));
    expect_golden(c, run(c, inputs, relaid(c.grad_output)));
  }
}

TEST_P(Operation, GradientsAgreeWithFiniteDifferences) {
  constexpr std::int64_t most = 1500;  // each input element costs two calls
  int checked = 0;
  for (const Case& c : cases()) {
    std::int64_t elements = 0;
    for (const Array& input : c.inputs) elements += input.numel();
    if (elements > most) continue;
    std::vector<Array> inputs;
    for (const Array& input : c.inputs)
      inputs.push_back(is_floating(input.dtype()) ? input.to(DType::f64) : input);
    const auto function = [&](const std::vector<Tensor>& in) {
      Call made = call(c, inputs);
      made.in = in;
      return GetParam().function(made);
    };
    EXPECT_NO_THROW(gradcheck(function, call(c, inputs).in)) << c.name;
    ++checked;
  }
  EXPECT_GT(checked, 0) << "no case is small enough";
}

// In 16 bits: what f32 gives for the same (rounded) inputs, to a few units in the last place of the largest value.
TEST_P(Operation, ComputesIn16Bits) {
  const int low_inputs = GetParam().low_inputs;
  if (low_inputs == 0) return;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const double tolerance = 4 * machine_epsilon(dtype);
    for (const Case& c : cases()) {
      std::vector<Array> low, wide;
      for (const Array& input : c.inputs) {
        const bool lowers = is_floating(input.dtype()) && static_cast<int>(low.size()) < low_inputs;
        low.push_back(lowers ? input.to(dtype) : input);
        wide.push_back(lowers ? low.back().to(DType::f32) : input);
      }
      const Array grad_output = c.grad_output.to(dtype).to(DType::f32);
      const Result expected = run(c, wide, grad_output), found = run(c, low, grad_output);
      const std::string what = c.name + " in " + name_of(dtype);
      EXPECT_EQ(found.output.dtype(), GetParam().op == "cross_entropy" ? DType::f32 : dtype) << what;
      expect_close(expected.output, found.output, tolerance, what + ": output");
      for (std::size_t i = 0; i < low.size(); ++i) {
        if (!expected.gradients[i].defined()) continue;
        EXPECT_EQ(found.gradients[i].dtype(), low[i].dtype()) << what;
        expect_close(expected.gradients[i], found.gradients[i], tolerance,
                     what + ": grad" + std::to_string(i));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Operation, ::testing::ValuesIn(rows()),
                         [](const auto& info) { return info.param.name(); });

TEST(OperationTable, HasARowForEachGoldenCaseAndACaseForEachRow) {
  std::set<std::string> in_file, in_table;
  for (const auto& [name, attributes] : golden().cases()) in_file.insert(attributes.at("op"));
  for (const Row& row : rows()) in_table.insert(row.op);
  EXPECT_EQ(in_file, in_table);
}

TEST(OperationTable, UsesEveryGoldenArray) {
  for (const auto& [name, array] : golden().arrays())
    EXPECT_EQ(golden().cases().count(name.substr(0, name.find('/'))), 1u) << name << " belongs to no case";
}

}  // namespace
}  // namespace tandem
