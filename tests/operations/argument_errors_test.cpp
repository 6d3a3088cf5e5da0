// Mistakes that every operation may get: undefined Tensors, invalid dimensions, sizes that are too large, and numbers
// that a dtype can't represent. A single place checks them for all operations, and the error still names the operation.
#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem::testing {
namespace {

constexpr std::int64_t large = std::int64_t{1} << 62;
constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();

using Calls = std::vector<std::pair<const char*, std::function<void()>>>;

void expect_errors(const Calls& calls, std::initializer_list<std::string_view> parts) {
  for (const auto& [operation, call] : calls) {
    SCOPED_TRACE(operation);
    const std::string text = error_of(call);
    expect_parts(text, {operation});
    expect_parts(text, parts);
  }
}

TEST(ArgumentErrors, NothingWhereATensorBelongs) {
  const Tensor x(counting({2, 3})), none;
  const Array index = Array::from(std::vector<std::int64_t>{0}, {1}), no_array;
  expect_errors({{"add", [&] { x + none; }},
                 {"softmax", [&] { softmax(none); }},
                 {"conv2d", [&] { conv2d(x, none); }},
                 {"matmul", [&] { matmul(x, none); }},
                 {"linear", [&] { linear(none, x); }},
                 {"cat",
                  [&] {
                    cat({x, none});
                  }},
                 {"relu_", [&] { relu_(none); }},
                 {"where", [&] { where(no_array, x, x); }},
                 {"gather", [&] { gather(x, 0, no_array); }},
                 {"index_select", [&] { index_select(x, 0, no_array); }},
                 {"embedding", [&] { embedding(no_array, x); }},
                 {"exp", [&] { exp(no_array); }}},
                {});
  EXPECT_ERROR(masked_fill(x, no_array, 1), "masked_fill", "mask");
  EXPECT_ERROR(no_array.clone(), "Array", "undefined");
  EXPECT_ERROR(no_array.to(DType::f64), "undefined");
  EXPECT_ERROR(no_array.to_vector<float>(), "undefined");
  EXPECT_ERROR(no_array.item(), "item");
  EXPECT_ERROR(Array().fill(1), "undefined");
  EXPECT_ERROR(x.value().clone().copy_from(no_array), "undefined");
  EXPECT_ERROR(Tensor(counting({2})).set_grad_buffer(no_array), "undefined");
  EXPECT_ERROR(Tensor(counting({})).set_value(no_array), "undefined");
}

TEST(ArgumentErrors, ADimensionThatIsNotThere) {
  const Tensor x(counting({2, 3}));
  const Array index = Array::from(std::vector<std::int64_t>{0}, {1});
  for (const std::int64_t dim : {std::int64_t{2}, std::int64_t{-3}, large, least}) {
    SCOPED_TRACE(dim);
    expect_errors({{"sum", [&] { sum(x, {dim}); }},
                   {"argmax", [&] { argmax(x, dim); }},
                   {"cumsum", [&] { cumsum(x, dim); }},
                   {"softmax", [&] { softmax(x, dim); }},
                   {"sort", [&] { sort(x, dim); }},
                   {"topk", [&] { topk(x, 1, dim); }},
                   {"index_select", [&] { index_select(x, dim, index); }},
                   {"transpose", [&] { transpose(x, 0, dim); }},
                   {"permute",
                    [&] {
                      permute(x, {0, dim});
                    }},
                   {"select", [&] { select(x, dim, 0); }},
                   {"split", [&] { split(x, 1, dim); }},
                   {"unbind", [&] { unbind(x, dim); }},
                   {"cat",
                    [&] {
                      cat({x, x}, dim);
                    }},
                   {"flip", [&] { flip(x, {dim}); }},
                   {"roll", [&] { roll(x, {1}, {dim}); }},
                   {"squeeze", [&] { squeeze(x, dim); }}},
                  {"dimension " + std::to_string(dim), "2 dimensions", "from -2 to 1"});
  }
  EXPECT_ERROR(unsqueeze(x, 3), "unsqueeze", "3", "(2, 3)", "-3 to 2");
  EXPECT_ERROR(select(Tensor(counting({})), 0, 0), "select", "scalar");
}

TEST(ArgumentErrors, SizesThatNothingCanHold) {
  const Tensor x(counting({2, 3})), one(counting({1}));
  expect_errors({{"reshape",
                  [&] {
                    reshape(x, {large, large});
                  }},
                 {"expand",
                  [&] {
                    expand(one, {large, large});
                  }},
                 {"repeat",
                  [&] {
                    repeat(x, {large, large});
                  }},
                 {"repeat_interleave", [&] { repeat_interleave(x, large, 0); }},
                 {"unflatten",
                  [&] {
                    unflatten(x, 0, {large, large});
                  }},
                 {"pad",
                  [&] {
                    pad(x, {large, large, large, large});
                  }},
                 {"cat",
                  [&] {
                    cat({expand(one, {large}), expand(one, {large})});
                  }},
                 {"matmul",
                  [&] {
                    matmul(expand(one, {large, 1}), expand(one, {1, large}));
                  }},
                 {"eye", [&] { eye(large); }},
                 {"randn",
                  [&] {
                    randn({large, large});
                  }}},
                {"64 bits"});
  expect_errors({{"linspace", [&] { linspace(0, 1, large); }},
                 {"arange", [&] { arange(large); }},
                 {"randperm", [&] { randperm(large); }}},
                {"memory"});
  expect_errors({{"eye", [&] { eye(-1); }},
                 {"rand", [&] { rand({-1}); }},
                 {"randint",
                  [&] {
                    randint(0, 2, {-1, -1});
                  }},
                 {"linspace", [&] { linspace(0, 1, -1); }},
                 {"randperm", [&] { randperm(-1); }}},
                {"negative", "-1"});
  EXPECT_ERROR(chunk(Tensor(counting({0})), large), "chunk", std::to_string(large));
  EXPECT_EQ(split(x, large).size(), 1u);
  const Tensor turned(counting({3}), true);
  roll(turned, {least}, {0}).backward({.gradient = counting({3})});  // shifts by -2^63, which has no negative
  EXPECT_EQ(turned.grad().to_vector<float>(), roll(Tensor(counting({3})), {2}, {0}).value().to_vector<float>());
}

TEST(ArgumentErrors, NumbersThatADtypeDoesNotHave) {
  const Tensor count(counting({3}, DType::i64));
  EXPECT_ERROR(full({2}, 1e30, DType::i32), "fill", "1e+30", "i32");
  EXPECT_ERROR(full({2}, std::nan(""), DType::i64), "fill", "nan", "i64");
  EXPECT_ERROR(fill_(count, 1e30), "fill", "i64");
  EXPECT_ERROR(fill_(Tensor(zeros({2}, DType::u8)), -1), "fill", "-1", "u8");
  EXPECT_ERROR(randint(0, 257, {2}, DType::u8), "randint", "[0, 257)", "u8");
  EXPECT_ERROR(add(count, count, 0.5), "add", "0.5", "i64");
  EXPECT_EQ(randint(255, 256, {1}, DType::u8).item(), 255);
}

TEST(ArgumentErrors, MemoryThatSeveralElementsShare) {
  EXPECT_EQ(add_(Tensor(zeros({2, 0, 5})), 1).numel(), 0);  // a stride of 0 that has no meaning
  const Tensor x = expand(Tensor(counting({1})), {3});
  EXPECT_ERROR(add_(x, 1), "add_", "(3)", "share memory");
  EXPECT_ERROR(copy_(x, Tensor(counting({3}))), "copy_", "(3)", "share memory");
}

}  // namespace
}  // namespace tandem::testing
