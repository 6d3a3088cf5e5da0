#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include <stdexcept>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::counting;
using testing::expect_close;

Tensor image() { return {ops::map(functors::Affine{0.01, -0.5}, counting({2, 3, 6, 6})), true}; }
Tensor matrix(std::int64_t rows, std::int64_t columns) {
  return {ops::map(functors::Affine{0.05, -0.4}, counting({rows, columns})), true};
}

// The dtype in which each operation computes with f32 inputs. The table is PyTorch's.
TEST(Autocast, Table) {
  const Tensor x = image(), a = matrix(4, 5), b = matrix(5, 3), w = matrix(3, 5), bias(ops::ones({3}), true);
  const Tensor kernel(ops::full({2, 3, 3, 3}, 0.1), true), positive(ops::ones({2, 2}));
  BatchNormState state{ops::zeros({3}), ops::ones({3})};
  struct Form {
    const char* name;
    std::function<Tensor()> run;
    bool low;
  };
  const std::vector<Form> forms = {
      {"conv2d", [&] { return conv2d(x, kernel); }, true},
      {"linear", [&] { return linear(a, w, bias); }, true},
      {"matmul", [&] { return matmul(a, b); }, true},
      {"cross_entropy", [&] { return cross_entropy(a, ops::zeros({4}, DType::i64)); }, false},
      {"log_softmax", [&] { return log_softmax(a); }, false},
      {"softmax", [&] { return softmax(a); }, false},
      {"exp", [&] { return exp(a); }, false},
      {"log", [&] { return log(positive); }, false},
      {"relu", [&] { return relu(a); }, false},
      {"add", [&] { return a + a; }, false},
      {"max_pool2d", [&] { return max_pool2d(x, 2); }, false},
      {"batch_norm", [&] { return batch_norm(x, Tensor(ops::ones({3})), Tensor(ops::ones({3})), state); }, false},
  };
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Autocast autocast(dtype);
    for (const Form& form : forms) EXPECT_EQ(form.run().dtype(), form.low ? dtype : DType::f32) << form.name;
  }
  for (const Form& form : forms) EXPECT_EQ(form.run().dtype(), DType::f32) << form.name;
}

TEST(Autocast, LowInputsMeetTheTableToo) {
  const Autocast autocast(DType::bf16);
  const Tensor low(matrix(4, 5).value().to(DType::bf16)), wide = matrix(4, 5);
  EXPECT_EQ(cross_entropy(low, ops::zeros({4}, DType::i64)).dtype(), DType::f32);
  EXPECT_EQ(log_softmax(low).dtype(), DType::f32);
  EXPECT_EQ(exp(low).dtype(), DType::f32);
  EXPECT_EQ(relu(low).dtype(), DType::bf16);
  EXPECT_EQ((low + low).dtype(), DType::bf16);
  EXPECT_EQ((low + wide).dtype(), DType::f32);
  const Tensor x(image().value().to(DType::bf16));
  BatchNormState state{ops::zeros({3}), ops::ones({3})};
  EXPECT_EQ(batch_norm(x, Tensor(ops::ones({3})), Tensor(ops::ones({3})), state).dtype(), DType::bf16);
}

TEST(Autocast, F64IsLeftAlone) {
  const Autocast autocast(DType::bf16);
  const Tensor a(counting({2, 3}, DType::f64)), b(counting({3, 2}, DType::f64));
  EXPECT_EQ(matmul(a, b).dtype(), DType::f64);
}

TEST(Autocast, GradientsOfParametersAreF32AndNearThoseOfF32) {
  const auto gradients = [](DType dtype) {
    const Tensor x = image(), kernel(ops::map(functors::Affine{0.01, -0.5}, counting({4, 3, 3, 3})), true);
    const Tensor bias(counting({4}), true), w(ops::map(functors::Affine{0.003, -0.5}, counting({5, 64})), true);
    const Tensor b(counting({5}), true), m = matrix(5, 3);
    const Autocast autocast(dtype);
    const Tensor y = matmul(linear(flatten(relu(conv2d(x, kernel, bias)), 1), w, b), m);
    EXPECT_EQ(y.dtype(), dtype);
    sum(y * matrix(2, 3)).backward();  // gradients of ordinary size: f16 would lose the small gradients of a mean
    std::vector<Array> result;
    for (const Tensor& t : {x, kernel, bias, w, b, m}) result.push_back(t.grad());
    return result;
  };
  const auto expected = gradients(DType::f32);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto found = gradients(dtype);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].dtype(), DType::f32) << i;
      expect_close(expected[i], found[i], 8 * testing::machine_epsilon(dtype), name_of(dtype) + std::to_string(i));
    }
  }
}

TEST(Autocast, BackwardMayRunOutside) {
  const Tensor a = matrix(2, 3), b = matrix(3, 2);
  Tensor loss;
  {
    const Autocast autocast(DType::bf16);
    loss = sum(matmul(a, b));
  }
  loss.backward();
  EXPECT_EQ(a.grad().dtype(), DType::f32);
  EXPECT_EQ(b.grad().dtype(), DType::f32);
}

TEST(Autocast, NestsAndIsRestored) {
  const Tensor a = matrix(2, 3), b = matrix(3, 2);
  const auto dtype = [&] { return matmul(a, b).dtype(); };
  {
    const Autocast outer(DType::bf16);
    EXPECT_EQ(dtype(), DType::bf16);
    {
      const Autocast off(DType::f32);
      EXPECT_EQ(dtype(), DType::f32);
      const Autocast inner(DType::f16);
      EXPECT_EQ(dtype(), DType::f16);
    }
    EXPECT_EQ(dtype(), DType::bf16);
    try {
      const Autocast inner(DType::f16);
      throw std::runtime_error("");
    } catch (const std::runtime_error&) {
    }
    EXPECT_EQ(dtype(), DType::bf16);
  }
  EXPECT_EQ(dtype(), DType::f32);
}

TEST(Autocast, OtherDtypesAreErrors) {
  EXPECT_ERROR(Autocast autocast(DType::f64), "Autocast", "f64");
  EXPECT_ERROR(Autocast autocast(DType::i32), "Autocast", "i32");
  EXPECT_EQ(matmul(matrix(2, 3), matrix(3, 2)).dtype(), DType::f32);
}

}  // namespace
}  // namespace tandem
