// Errors of linear algebra and attention for shapes and dtypes that do not fit, and results that no row of the table
// tests.
#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/nn/attention.h>

#include <gtest/gtest.h>

#include "operations/device.h"
#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::counting;
using testing::device;
using testing::expect_close;

Tensor numbers(const Shape& shape, DType dtype = DType::f32) { return Tensor(counting(shape).to(dtype).to(device)); }

TEST(LinearErrors, NameShapesAndTheRule) {
  EXPECT_ERROR(matmul(numbers({2, 3}), numbers({4, 5})),
               "shapes (2, 3) and (4, 5) do not fit: 3 columns of the first, but 4 rows of the second");
  EXPECT_ERROR(matmul(numbers({2, 3, 4}), numbers({5, 4, 6})), "matmul: shapes (2) and (5) do not broadcast");
  EXPECT_ERROR(matmul(numbers({}), numbers({1})), "a scalar can't be multiplied as a matrix");
  EXPECT_ERROR(matmul(numbers({2}), numbers({2}, DType::f64)), "must have the same dtype, got f32 and f64");
  EXPECT_ERROR(matmul(numbers({2}, DType::boolean), numbers({2}, DType::boolean)), "needs floating dtypes");
  EXPECT_ERROR(mm(numbers({2, 3, 4}), numbers({4, 5})), "mm: shapes (2, 3, 4) and (4, 5)");
  EXPECT_ERROR(bmm(numbers({2, 3, 4}), numbers({1, 4, 5})), "bmm: batches of shapes (2, 3, 4) and (1, 4, 5)");
  EXPECT_ERROR(mv(numbers({2, 3}), numbers({3, 1})), "expected (M, K) and (K)");
  EXPECT_ERROR(dot(numbers({2}), numbers({3})), "shapes (2) and (3) do not fit");
  EXPECT_ERROR(outer(numbers({2, 1}), numbers({3})), "expected (M) and (N)");
  EXPECT_ERROR(addmm(numbers({3, 3}), numbers({2, 3}), numbers({3, 4})), "addmm");
  EXPECT_ERROR(linear(numbers({2, 3}), numbers({5, 4})),
               "input (2, 3) does not fit weight (5, 4): expected (..., in) and (out, in)");
  EXPECT_ERROR(linear(numbers({2, 3}), numbers({5, 3}), numbers({3})), "bias has shape (3), expected (5)");
}

TEST(AttentionErrors, NameShapesAndTheRule) {
  const Tensor x = numbers({2, 3, 4});
  EXPECT_ERROR(scaled_dot_product_attention(x, numbers({2, 3, 5}), x), "query (2, 3, 4) and key (2, 3, 5)");
  EXPECT_ERROR(scaled_dot_product_attention(x, x, numbers({2, 4, 4})), "key (2, 3, 4) and value (2, 4, 4)");
  EXPECT_ERROR(scaled_dot_product_attention(x, x, x, {.attn_mask = numbers({4, 3})}), "attn_mask");
  EXPECT_ERROR(scaled_dot_product_attention(x, x, x, {.attn_mask = numbers({3, 3}), .is_causal = true}),
               "attn_mask and is_causal can't be combined");
  EXPECT_ERROR(scaled_dot_product_attention(x, x, x, {.attn_mask = numbers({3, 3}, DType::i64)}),
               "attn_mask must be bool or floating, got i64");
  EXPECT_ERROR(scaled_dot_product_attention(x, numbers({2, 3, 4}, DType::f64), x), "the same floating dtype");
  EXPECT_ERROR(nn::MultiheadAttention(10, 3), "embed_dim 10 can't be divided into 3 heads");
}

TEST(Matmul, OfIntegersIsExactOnTheCpu) {
  if (!device.is_cpu()) {
    EXPECT_ERROR(matmul(numbers({2}, DType::i64), numbers({2}, DType::i64)), "needs floating dtypes");
    return;
  }
  for (const DType dtype : {DType::i64, DType::i32, DType::u8}) {
    const Array a = counting({2, 3}).to(dtype), b = counting({4, 3}).to(dtype).transpose(0, 1);
    const Array y = ops::matmul(a, b);
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{5, 14, 23, 32, 14, 50, 86, 122}));
  }
  const Array large = Array::from(std::vector<std::int64_t>{(1ll << 53) + 1}, {1, 1});
  EXPECT_EQ(ops::matmul(large, large).to_vector<std::int64_t>()[0], 1 + (1ll << 54));  // modulo 2^64
}

TEST(Matmul, ComputesInTheLowerTypeUnderAutocast) {
  const Autocast autocast(DType::bf16);
  EXPECT_EQ(matmul(numbers({2, 3, 4}), numbers({4, 5})).dtype(), DType::bf16);
  EXPECT_EQ(scaled_dot_product_attention(numbers({2, 3, 4}), numbers({2, 3, 4}), numbers({2, 3, 4})).dtype(),
            DType::bf16);
}

// Batches whose matrices are rows of one table need one product. Others need many, if there is no other way.
TEST(Matmul, TakesBatchesOfManyStrides) {
  const Array table = ops::map(functors::Affine{1e-3, -1}, counting({6, 5, 4, 3})).to(device);
  const Array right = ops::map(functors::Affine{1e-2, -1}, counting({6, 4, 3, 7})).to(device);
  const Array a = table.permute({0, 2, 1, 3});  // (6, 4, 5, 3): attention heads as rows
  const Array expected = ops::matmul(a.contiguous(), right);
  expect_close(expected, ops::matmul(a, right), 1e-6, "heads of rows");
  for (int i = 0; i < 6; ++i)
    expect_close(ops::matmul(a.select(0, i).select(0, 1), right.select(0, i).select(0, 1)),
                 expected.select(0, i).select(0, 1), 1e-6, "each alone");
}

TEST(MultiheadAttention, OfXToItselfIsOneProjection) {
  manual_seed(0);
  nn::MultiheadAttention attention(8, 2, {.batch_first = true});
  attention.to(device);
  const Array x = ops::map(functors::Affine{0.03, -1}, counting({2, 5, 8})).to(device);
  const Tensor same(x, true), query(x.clone(), true), key(x.clone(), true), value(x.clone(), true);
  const Tensor y = attention(same);
  const auto apart = attention.forward(query, key, value, {.is_causal = false});
  expect_close(apart.output.value(), y.value(), 1e-5, "output");
  sum(y * y).backward();
  const Array grad = attention.in_proj_weight.grad().clone();
  attention.zero_grad();
  sum(apart.output * apart.output).backward();
  expect_close(attention.in_proj_weight.grad(), grad, 1e-4, "gradient of the projections");
  const Array all = ops::zip(functors::Add{}, ops::zip(functors::Add{}, query.grad(), key.grad()), value.grad());
  expect_close(all, same.grad(), 1e-4, "gradient of x");
  EXPECT_EQ(apart.weights.shape(), Shape({2, 5, 5}));
}

TEST(MultiheadAttention, CausalIsTheSameWithAndWithoutPadding) {
  manual_seed(0);
  nn::MultiheadAttention attention(8, 2);
  attention.to(device);
  const Tensor x(ops::map(functors::Affine{0.03, -1}, counting({5, 2, 8})).to(device));
  const Tensor nothing(ops::zeros({2, 5}, DType::boolean, device));
  const auto plain = attention.forward(x, x, x, {.need_weights = false, .is_causal = true});
  const auto padded =
      attention.forward(x, x, x, {.key_padding_mask = nothing, .need_weights = false, .is_causal = true});
  expect_close(plain.output.value(), padded.output.value(), 1e-5, "output");
}

}  // namespace
}  // namespace tandem
