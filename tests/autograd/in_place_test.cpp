// In-place operations: values, gradients, and rejected arguments.
#include <tandem/autograd/functions.h>
#include <tandem/autograd/gradcheck.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::array_of;
using testing::counting;

Tensor leaf(double first = 0.3) { return {ops::map(functors::Affine{0.4, first}, counting({2, 3}, DType::f64)), true}; }

struct Pair {
  const char* name;
  Tensor (*in_place)(const Tensor&);
  Tensor (*plain)(const Tensor&);
};

TEST(InPlace, ComputesAndDifferentiatesAsTheFormThatReturnsANewTensor) {
  const Pair pairs[] = {
      {"neg", neg_, neg},
      {"abs", abs_, abs},
      {"square", square_, square},
      {"reciprocal", reciprocal_, reciprocal},
      {"floor", floor_, floor},
      {"ceil", ceil_, ceil},
      {"trunc", trunc_, trunc},
      {"round", round_, round},
      {"exp", exp_, exp},
      {"log", log_, log},
      {"sqrt", sqrt_, sqrt},
      {"rsqrt", rsqrt_, rsqrt},
      {"relu", relu_, relu},
      {"sigmoid", sigmoid_, sigmoid},
      {"tanh", tanh_, tanh},
      {"silu", silu_, silu},
      {"hardswish", hardswish_, hardswish},
      {"add", [](const Tensor& x) { return add_(x, 3); }, [](const Tensor& x) { return x + 3; }},
      {"sub", [](const Tensor& x) { return sub_(x, 0.5); }, [](const Tensor& x) { return x - 0.5; }},
      {"mul", [](const Tensor& x) { return mul_(x, -2); }, [](const Tensor& x) { return x * -2; }},
      {"div", [](const Tensor& x) { return div_(x, 3); }, [](const Tensor& x) { return x / 3; }},
      {"pow", [](const Tensor& x) { return pow_(x, 2.5); }, [](const Tensor& x) { return pow(x, 2.5); }},
      {"clamp", [](const Tensor& x) { return clamp_(x, 0.5, 1.2); },
       [](const Tensor& x) { return clamp(x, 0.5, 1.2); }},
      {"leaky_relu", [](const Tensor& x) { return leaky_relu_(x, 0.2); },
       [](const Tensor& x) { return leaky_relu(x, 0.2); }},
      {"elu", [](const Tensor& x) { return elu_(x, 0.7); }, [](const Tensor& x) { return elu(x, 0.7); }},
      {"mul by itself", [](const Tensor& x) { return mul_(x, x); }, [](const Tensor& x) { return x * x; }},
      {"div by itself", [](const Tensor& x) { return div_(x, x); }, [](const Tensor& x) { return x / x; }},
      {"zero", zero_, [](const Tensor& x) { return x * 0; }},
  };
  for (const Pair& pair : pairs) {
    SCOPED_TRACE(pair.name);
    const Tensor a = leaf(), b = leaf();
    const Tensor in_place = pair.in_place(a * 1), plain = pair.plain(b * 1);
    testing::expect_close(plain.value(), in_place.value(), 1e-12, "value");
    const Array gradient = counting({2, 3}, DType::f64);
    in_place.backward({.gradient = gradient});
    plain.backward({.gradient = gradient});
    const Array expected = b.grad();
    testing::expect_close(expected, a.grad().defined() ? a.grad() : ops::zeros_like(expected), 1e-12, "gradient");
  }
}

TEST(InPlace, BinaryOperationsHaveGradientsOfBothOperands) {
  using Function = Tensor (*)(const Tensor&, const Tensor&);
  const Function functions[] = {
      [](const Tensor& a, const Tensor& b) { return add_(a * 1, b, -0.5); },
      [](const Tensor& a, const Tensor& b) { return sub_(a * 1, b); },
      [](const Tensor& a, const Tensor& b) { return mul_(a * 1, b); },
      [](const Tensor& a, const Tensor& b) { return div_(a * 1, b); },
      [](const Tensor& a, const Tensor& b) { return copy_(a * 1, b) * a; },
  };
  for (const Function f : functions) {
    const Tensor row(Array::from(std::vector<double>{1.5, -2, 0.7}, {3}), true);
    gradcheck([f](const std::vector<Tensor>& in) { return f(in[0], in[1]); }, {leaf(), row});
  }
}

TEST(InPlace, KeepsTheMemoryShapeAndDtype) {
  const Tensor x(array_of({1, 2, 3}));
  const void* memory = x.value().raw();
  EXPECT_EQ(add_(x, 1).value().raw(), memory);
  mul_(x, Tensor(Array::from(std::vector<double>{2, 2, 2}, {3})));
  EXPECT_EQ(x.dtype(), DType::f32);
  EXPECT_EQ(x.value().raw(), memory);
  EXPECT_EQ(x.value().to_vector<float>(), (std::vector<float>{4, 6, 8}));
  const Tensor flags(ops::ones({2}, DType::boolean));
  fill_(flags, 0);
  EXPECT_EQ(flags.value().to_vector<float>(), (std::vector<float>{0, 0}));
  const Tensor counter(Array::from(std::vector<std::int64_t>{5}, {1}));
  EXPECT_EQ(add_(counter, 2).item(), 7);
  // The views overlap. The operation reads the old values of both.
  const Tensor all(counting({5}));
  add_(Tensor(all.value().slice(0, 1, 5)), Tensor(all.value().slice(0, 0, 4)));
  EXPECT_EQ(all.value().to_vector<float>(), (std::vector<float>{0, 1, 3, 5, 7}));
}

TEST(InPlace, Refuses) {
  const Tensor x = leaf();
  EXPECT_ERROR(relu_(x), "relu_", "leaf", "(2, 3)");
  EXPECT_ERROR(add_(x, 1), "add_", "leaf");
  {
    const NoGrad no_grad;
    EXPECT_NO_THROW(add_(x, 1));
  }
  const Tensor y = x * 2, view = reshape(y, {6});
  EXPECT_ERROR(mul_(view, 2), "mul_", "view");
  EXPECT_ERROR(mul_(y, 2), "mul_", "view");
  const Tensor z = x * 2, saved = exp(z);
  add_(saved, 1);
  EXPECT_ERROR(saved.backward({.gradient = saved.value()}), "exp", "add_");

  const Tensor three(array_of({1, 2, 3})), count(Array::from(std::vector<std::int64_t>{1, 2, 3}, {3}));
  EXPECT_ERROR(add_(three, Tensor(counting({2, 3}))), "add_", "(3)", "(2, 3)");
  EXPECT_ERROR(add_(count, 0.5), "add_", "0.5", "i64");
  EXPECT_ERROR(mul_(count, three), "mul_", "f32", "i64");
  EXPECT_ERROR(exp_(count), "exp_", "f32", "i64");
  EXPECT_ERROR(div_(count, 2), "div_", "f32", "i64");
  EXPECT_ERROR(add_(Tensor(array_of({1}).expand({4})), 1), "add_", "share");
}

}  // namespace
}  // namespace tandem
