#include "operations/table.h"

#include <tandem/autograd/gradcheck.h>

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>

#include "operations/device.h"
#include "support/golden.h"

namespace tandem::testing {
namespace {

using nlohmann::json;

struct Family {
  const char* name;
  std::vector<Row> (*rows)();
};
constexpr Family families[] = {
#ifndef TANDEM_WITHOUT_ANNEXES
    {"distance", distance_rows},   {"einsum", einsum_rows},   {"recurrent", recurrent_rows},
#endif
    {"attention", attention_rows}, {"dropout", dropout_rows}, {"elementwise", elementwise_rows},
    {"index", index_rows},         {"linear", linear_rows},   {"loss", loss_rows},
    {"norm", norm_rows},           {"reduce", reduce_rows},   {"shape", shape_rows},
    {"sort", sort_rows},           {"spatial", spatial_rows}};

const Golden& golden_of(std::string_view family) {
  static std::map<std::string, Golden, std::less<>> loaded;
  if (const auto found = loaded.find(family); found != loaded.end()) return found->second;
  return loaded.try_emplace(std::string(family), "ops_" + std::string(family) + ".safetensors").first->second;
}

struct FamilyRow {
  std::string family;
  Row row;
};
void PrintTo(const FamilyRow& row, std::ostream* out) { *out << row.row.name(); }

const std::vector<FamilyRow>& table() {
  static const std::vector<FamilyRow> rows = [] {
    std::vector<FamilyRow> all;
    for (const Family& family : families)
      for (Row& row : family.rows()) all.push_back({family.name, std::move(row)});
    return all;
  }();
  return rows;
}

struct Case {
  std::string name;
  const json& attributes;
  std::vector<Array> inputs;  // on the device
};

struct Result {
  Array output;
  std::vector<Array> gradients;  // undefined for integer inputs
  std::vector<Array> more;
  Array running_mean, running_var;
};

class Operation : public ::testing::TestWithParam<FamilyRow> {
 protected:
  const Row& row() const { return GetParam().row; }
  const Golden& golden() const { return golden_of(GetParam().family); }
  bool has(const Case& c, const std::string& what) const { return golden().has(c.name + '/' + what); }
  Array value(const Case& c, const std::string& what) const { return golden()[c.name + '/' + what].to(device); }

  std::vector<Case> cases() const {
    std::vector<Case> found;
    for (const auto& [name, attributes] : golden().cases()) {
      if (attributes.at("op") != row().op) continue;
      Case c{name, attributes, {}};
      for (int i = 0; has(c, "input" + std::to_string(i)); ++i)
        c.inputs.push_back(value(c, "input" + std::to_string(i)));
      found.push_back(std::move(c));
    }
    return found;
  }

  // Returns the call of the case with these inputs.
  Call call(const Case& c, const std::vector<Array>& inputs) const {
    Call result{{}, c.attributes, {}, {}};
    for (const Array& input : inputs) result.in.emplace_back(input, is_floating(input.dtype()));
    if (has(c, "running_mean")) {
      const DType dtype = inputs[0].dtype() == DType::f64 ? DType::f64 : DType::f32;
      result.running_mean = value(c, "running_mean").clone().to(dtype);
      result.running_var = value(c, "running_var").clone().to(dtype);
    }
    return result;
  }

  // Runs forward, and backward from grad_output if it is defined.
  Result run(const Case& c, const std::vector<Array>& inputs, const Array& grad_output) const {
    Call made = call(c, inputs);
    const Tensor output = row().function(made);
    if (grad_output.defined() && output.requires_grad()) output.backward({.gradient = grad_output.to(output.dtype())});
    Result result{output.value(), {}, made.more, made.running_mean, made.running_var};
    for (const Tensor& input : made.in) result.gradients.push_back(input.grad());
    return result;
  }
  Array grad_output(const Case& c) const { return has(c, "grad_output") ? value(c, "grad_output") : Array(); }

  void expect_golden(const Case& c, const Result& result) const {
    const double tolerance = row().tolerance;
    EXPECT_EQ(result.output.dtype(), value(c, "output").dtype()) << c.name;
    expect_close(value(c, "output"), result.output, tolerance, c.name + ": output");
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      const std::string grad = "grad" + std::to_string(i);
      if (has(c, grad)) expect_close(value(c, grad), result.gradients[i], tolerance, c.name + ": " + grad);
      else EXPECT_FALSE(result.gradients[i].defined()) << c.name;
    }
    for (std::size_t i = 0; has(c, "more" + std::to_string(i)); ++i) {
      const std::string what = "more" + std::to_string(i);
      ASSERT_LT(i, result.more.size()) << c.name;
      EXPECT_EQ(result.more[i].dtype(), value(c, what).dtype()) << c.name << ": " << what;
      expect_close(value(c, what), result.more[i], tolerance, c.name + ": " + what);
    }
    for (const auto& [name, array] :
         {std::pair("running_mean", result.running_mean), {"running_var", result.running_var}})
      if (has(c, name)) expect_close(value(c, std::string(name) + "_after"), array, tolerance, c.name + ": " + name);
  }
};

TEST_P(Operation, EqualsPyTorch) {
  const auto all = cases();
  ASSERT_FALSE(all.empty());
  for (const Case& c : all) expect_golden(c, run(c, c.inputs, grad_output(c)));
}

TEST_P(Operation, TakesAnyStrides) {
  for (const Case& c : cases()) {
    std::vector<Array> views;
    for (const Array& input : c.inputs) views.push_back(strided(input));
    const Array grad = grad_output(c);
    expect_golden(c, run(c, views, grad.defined() ? strided(grad) : grad));
  }
}

TEST_P(Operation, TakesChannelsLast) {
  const auto relaid = [](const Array& a) { return a.defined() && a.ndim() == 4 ? a.channels_last() : a; };
  for (const Case& c : cases()) {
    std::vector<Array> inputs;
    for (const Array& input : c.inputs) inputs.push_back(relaid(input));
    expect_golden(c, run(c, inputs, relaid(grad_output(c))));
  }
}

TEST_P(Operation, GradientsAgreeWithFiniteDifferences) {
  // Each input element takes two calls.
  const std::int64_t most = device.is_cpu() ? 1500 : 100;
  int checked = 0;
  bool has_gradients = false;
  for (const Case& c : cases()) {
    // Special values (infinities, NaN, ties) have no finite differences, and some gradients omit a part on purpose.
    if (!has(c, "grad_output") || c.attributes.contains("special")) continue;
    has_gradients = true;
    std::int64_t elements = 0;
    for (const Array& input : c.inputs) elements += input.numel();
    if (elements > most) continue;
    std::vector<Array> inputs;
    for (const Array& input : c.inputs)
      inputs.push_back(is_floating(input.dtype()) ? input.to(DType::f64).clone() : input);
    const auto function = [&](const std::vector<Tensor>& in) {
      Call made = call(c, inputs);
      made.in = in;
      return row().function(made);
    };
    EXPECT_NO_THROW(gradcheck(function, call(c, inputs).in)) << c.name;
    ++checked;
  }
  EXPECT_TRUE(checked > 0 || !has_gradients || !device.is_cpu()) << "no case is small enough";
}

// In 16 bits, the results are those of f32 for the same rounded inputs, within a few units in the last place of the
// largest value.
TEST_P(Operation, ComputesIn16Bits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const double tolerance = row().low_tolerance * machine_epsilon(dtype);
    for (const Case& c : cases()) {
      if (c.attributes.value("special", json()) == true) continue;  // many cases overflow
      std::vector<Array> low, wide;
      bool lowered = false;
      for (const Array& input : c.inputs) {
        const bool lowers = input.dtype() == DType::f32 && static_cast<int>(low.size()) < row().low_inputs;
        lowered |= lowers;
        low.push_back(lowers ? input.to(dtype) : input);
        wide.push_back(lowers ? low.back().to(DType::f32) : input);
      }
      if (!lowered) continue;
      Array grad = grad_output(c);
      if (grad.defined()) grad = grad.to(dtype).to(DType::f32);
      const Result expected = run(c, wide, grad), found = run(c, low, grad);
      const std::string what = c.name + " in " + name_of(dtype);
      if (expected.output.dtype() == DType::f32) {
        EXPECT_EQ(found.output.dtype(), row().keeps_dtype ? dtype : DType::f32) << what;
      }
      expect_close(expected.output, found.output, tolerance, what + ": output");
      for (std::size_t i = 0; i < low.size(); ++i) {
        if (!expected.gradients[i].defined()) continue;
        EXPECT_EQ(found.gradients[i].dtype(), low[i].dtype()) << what;
        expect_close(expected.gradients[i], found.gradients[i], tolerance, what + ": grad" + std::to_string(i));
      }
    }
  }
}

// Tries random shapes, dtypes and strides. An operation has the same results as for contiguous copies, or throws an
// Error that says why it can't compute them.
class Fuzzer {
 public:
  explicit Fuzzer(unsigned seed) : random_(seed) {}

  // Returns an array that is usually similar to `like`, and sometimes arbitrary.
  Array input(const Array& like) {
    Shape shape = like.shape();
    if (chance(3)) {
      shape = {};
      for (int rank = below(5); rank > 0; --rank) shape.push_back(below(5));
    } else if (shape.ndim() > 0 && chance(2)) {
      shape[below(shape.ndim())] = below(4);
    }
    constexpr DType dtypes[] = {DType::f32, DType::f64, DType::bf16, DType::i64, DType::i32, DType::u8, DType::boolean};
    const DType dtype = chance(5) ? dtypes[below(7)] : like.dtype();
    std::vector<double> values(static_cast<std::size_t>(shape.product()));
    std::uniform_real_distribution<double> distribution(-2, 6);
    for (double& v : values) v = is_floating(dtype) ? distribution(random_) / 2 : std::floor(distribution(random_));
    return Array::from(values, shape).to(dtype).to(device);
  }

  // Returns the same numbers with different strides.
  Array view(const Array& a) {
    switch (below(4)) {
      case 0: return strided(a);
      case 1: return a.ndim() == 4 ? a.channels_last() : a;
      case 2: {
        Dims order;
        for (int i = 0; i < a.ndim(); ++i) order.push_back(a.ndim() - 1 - i);
        return a.permute(order).contiguous().permute(order);
      }
      default: return a;
    }
  }

  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  bool chance(int n) { return below(n) == 0; }

 private:
  std::mt19937 random_;
};

TEST_P(Operation, ComputesAnythingOrSaysWhyNot) {
  if (!row().is_fuzzed) return;
  const auto all = cases();
  // TANDEM_FUZZ=1000:500 tries 500 seeds, beginning with 1000.
  int first = 0, rounds = device.is_cpu() ? 60 : 12;
  if (const char* seeds = std::getenv("TANDEM_FUZZ")) {
    ASSERT_EQ(std::sscanf(seeds, "%d:%d", &first, &rounds), 2) << "TANDEM_FUZZ is FIRST:COUNT, got " << seeds;
  }
  for (int seed = first; seed < first + rounds; ++seed) {
    Fuzzer fuzzer(seed);
    const Case& c = all[fuzzer.below(static_cast<int>(all.size()))];
    std::vector<Array> dense, views;
    std::string what = c.name + ", seed " + std::to_string(seed) + ':';
    for (const Array& input : c.inputs) {
      dense.push_back(fuzzer.input(input));
      views.push_back(fuzzer.view(dense.back()));
      what += ' ' + ::testing::PrintToString(dense.back().shape()) + ' ' + name_of(dense.back().dtype());
    }
    SCOPED_TRACE(what);
    try {
      const Result forward = run(c, dense, {});
      Array grad;
      if (is_floating(forward.output.dtype())) grad = fuzzer.input(forward.output);
      if (grad.defined() && grad.shape() != forward.output.shape()) grad = Array();
      const Result expected = run(c, dense, grad), found = run(c, views, grad);
      const double tolerance = is_floating(forward.output.dtype()) ? 256 * machine_epsilon(forward.output.dtype()) : 0;
      expect_close(expected.output, found.output, tolerance, "output");
      for (std::size_t i = 0; i < dense.size(); ++i)
        if (expected.gradients[i].defined())
          expect_close(expected.gradients[i], found.gradients[i],
                       std::max(tolerance, 256 * machine_epsilon(dense[i].dtype())), "grad" + std::to_string(i));
    } catch (const Error& error) {
      EXPECT_GT(std::string(error.what()).size(), 20u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Operation, ::testing::ValuesIn(table()),
                         [](const auto& info) { return info.param.row.name(); });

TEST(OperationTable, HasARowForEachGoldenCaseAndACaseForEachRow) {
  for (const Family& family : families) {
    std::set<std::string> in_file, in_table;
    for (const auto& [name, attributes] : golden_of(family.name).cases()) in_file.insert(attributes.at("op"));
    for (const Row& row : family.rows()) in_table.insert(row.op);
    EXPECT_EQ(in_file, in_table) << family.name;
  }
}

#ifdef TANDEM_WITHOUT_ANNEXES  // in that build, annexes' headers declare nothing
constexpr const char* headers = TANDEM_PROGRAM_DIR "/../include/tandem/autograd/functions";
#else
constexpr const char* headers = TANDEM_SOURCE_DIR "/autograd/functions";
#endif

// Returns the functions that the headers of the families declare.
std::set<std::string> declared_operations() {
  std::set<std::string> names;
  const std::regex declaration(R"(^(?:inline )?(?:[A-Za-z_:]+(?:<[^>]*>)?) ([a-z_0-9]+)\()");
  for (const auto& file : std::filesystem::directory_iterator(headers)) {
    if (file.path().extension() != ".h") continue;
    std::ifstream header(file.path());
    for (std::string line; std::getline(header, line);)
      if (std::smatch match; std::regex_search(line, match, declaration)) names.insert(match[1]);
  }
  return names;
}

TEST(OperationTable, HasARowForEachOperation) {
  std::set<std::string> tested;
  for (const FamilyRow& row : table()) {
    tested.insert(row.row.op);
    tested.insert(row.row.also.begin(), row.row.also.end());
  }
  const auto declared = declared_operations();
  ASSERT_GT(declared.size(), 100u);
  for (const std::string& name : declared)
    EXPECT_TRUE(tested.contains(name)) << name << " is declared in autograd/functions/ and has no row";
}

TEST(OperationTable, UsesEveryGoldenArray) {
  for (const Family& family : families) {
    const Golden& golden = golden_of(family.name);
    for (const auto& [name, array] : golden.arrays())
      EXPECT_EQ(golden.cases().count(name.substr(0, name.find('/'))), 1u) << name << " belongs to no case";
  }
}

}  // namespace
}  // namespace tandem::testing
