// Tied weights, which are one parameter with two names, and members of a module that a program tries to replace.
#include <tandem/autograd/functions.h>
#include <tandem/core/io/pth.h>
#include <tandem/core/io/safetensors.h>
#include <tandem/core/ops.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/embedding.h>
#include <tandem/nn/linear.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>

#include <filesystem>

#include "nn/names.h"
#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::names_of;

struct Tied : nn::Module {
  nn::Embedding& embedding = add("embedding", nn::Embedding(5, 3));
  nn::Linear& head = add("head", nn::Linear(3, 5, {.bias = false}));
  Tied() { tie(head.weight, embedding.weight); }
  Tensor forward(const Tensor& index) override { return head(embedding(index)); }
};

Tensor index_of_two() { return Tensor(Array::from(std::vector<std::int64_t>{1, 4}, {2})); }

TEST(Tied, is_one_parameter_with_one_gradient_and_two_names) {
  Tied model;
  EXPECT_TRUE(model.head.weight.same_as(model.embedding.weight));
  EXPECT_EQ(names_of(model.parameters()), testing::Names{"embedding.weight"});
  EXPECT_EQ(model.parameter_count(), 15);
  EXPECT_EQ(names_of(model.state_dict()), (testing::Names{"embedding.weight", "head.weight"}));

  // The gradient is the sum of the gradients of both uses.
  const Tensor a(model.embedding.weight.value().clone(), true), b(a.value().clone(), true);
  sum(linear(embedding(index_of_two().value(), a), b, {})).backward();
  sum(model(index_of_two())).backward();
  testing::expect_close(model.head.weight.grad(), ops::zip(functors::Add{}, a.grad(), b.grad()), 1e-6, "gradient");
}

TEST(Tied, an_optimizer_updates_it_once) {
  Tied model;
  const Array before = model.embedding.weight.value().clone();
  optim::SGD sgd(model.parameters(), {.lr = 1});
  EXPECT_EQ(sgd.parameters().size(), 1u);
  sum(model(index_of_two())).backward();
  sgd.step();
  testing::expect_close(model.head.weight.value(), ops::zip(functors::Sub{}, before, model.head.weight.grad()), 1e-6,
                        "step");
}

TEST(Tied, files_have_both_names_and_pth_one_storage) {
  const testing::TemporaryFolder folder;
  Tied model;
  write_safetensors(folder / "model.safetensors", model.state_dict());
  write_pth(folder / "model.pth", model.state_dict());
  const Array copy = model.embedding.weight.value().clone();
  write_pth(folder / "two.pth", std::vector<NamedArray>{{"embedding.weight", copy}, {"head.weight", copy.clone()}});
  for (const auto& [name, array] : read_safetensors(folder / "model.safetensors").arrays)
    testing::expect_same(array, model.embedding.weight.value(), "tied");
  EXPECT_LT(std::filesystem::file_size(folder / "model.pth") + copy.bytes(),
            std::filesystem::file_size(folder / "two.pth"));
  Tied other;
  other.load_state_dict(read_pth(folder / "model.pth"));
  testing::expect_same(other.head.weight.value(), model.head.weight.value(), "tied");
}

TEST(Tied, different_values_for_its_names_are_an_error_and_change_nothing) {
  Tied model;
  const Array before = model.head.weight.value().clone();
  std::vector<NamedArray> state{{"embedding.weight", ops::zeros({5, 3})}, {"head.weight", ops::ones({5, 3})}};
  EXPECT_ERROR(model.load_state_dict(state), "embedding.weight", "head.weight", "different values");
  testing::expect_same(model.head.weight.value(), before, "tied");
  state[1].array = ops::zeros({5, 3});
  model.load_state_dict(state);
  testing::expect_same(model.head.weight.value(), ops::zeros({5, 3}), "tied");
}

TEST(Tied, moves_with_its_module) {
  Tied model;
  model.to(DType::bf16);
  EXPECT_EQ(model.head.weight.dtype(), DType::bf16);
  const nn::Embedding& embedding = model.embedding;
  const Tied moved = std::move(model);
  EXPECT_TRUE(moved.head.weight.same_as(embedding.weight));
}

TEST(Tied, what_does_not_fit_is_an_error) {
  struct Wrong : nn::Module {
    nn::Linear& a = add("a", nn::Linear(2, 3));
    nn::Linear& b = add("b", nn::Linear(3, 2));
    nn::Linear& c = add("c", nn::Linear(2, 3));
    Wrong() {
      EXPECT_ERROR(tie(a.weight, b.weight), "tie", "(3, 2)", "(2, 3)");
      Tensor copy = a.weight, strange(ops::zeros({3, 2}), true);
      EXPECT_ERROR(tie(strange, a.weight), "no such parameter");
      EXPECT_ERROR(tie(a.weight, Tensor()), "undefined");
      EXPECT_ERROR(tie(a.weight, a.weight * 2), "result of an operation");
      tie(a.weight, c.weight);
      tie(a.weight, c.weight);  // already tied
      EXPECT_ERROR(tie(c.weight, Tensor(ops::zeros({3, 2}), true)), "is already tied", "weight");
    }
  } wrong;
}

TEST(Members, cannot_be_made_to_refer_to_something_else) {
  nn::Linear a(2, 3), b(2, 3);
  const Array before = a.weight.value().clone();
  EXPECT_ERROR(a.weight = b.weight, "tie(");
  EXPECT_ERROR(a.weight = a.weight * 2, "set_value()");
  EXPECT_ERROR(a.bias = Tensor(), "parameter or buffer of a module");
  testing::expect_same(a.weight.value(), before, "tied");
  testing::expect_same(a.state_dict()[0].array, before, "tied");
  nn::BatchNorm2d norm(3);
  EXPECT_ERROR(norm.running_mean = Tensor(ops::zeros({3})), "buffer");
}

TEST(Members, copies_and_whole_modules_can) {
  nn::Linear a(2, 3), b(2, 3);
  Tensor copy = a.weight;
  copy = b.weight;  // `copy` now names a different tensor
  EXPECT_TRUE(copy.same_as(b.weight));
  a.weight = a.weight;
  const Tensor weight = b.weight;
  a = std::move(b);
  EXPECT_TRUE(a.weight.same_as(weight));
  testing::expect_same(a.state_dict()[0].array, weight.value(), "tied");
  EXPECT_ERROR(a.weight = copy * 1, "tie(");
}

}  // namespace
}  // namespace tandem
