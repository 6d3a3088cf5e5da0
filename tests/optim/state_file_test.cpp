#include <tandem/core/io/safetensors.h>
#include <tandem/core/ops.h>
#include <tandem/optim/adam.h>
#include <tandem/optim/sgd.h>
#include <tandem/optim/state_file.h>

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/arrays.h"
#include "support/make_optimizer.h"
#include "support/process.h"
#include "support/temporary_folder.h"
#include "support/torch_python.h"

namespace tandem {
namespace {

using optim::load_optimizer;
using optim::save_optimizer;
using testing::array_of;
using Floats = std::vector<float>;

// A model with two parameters, and their gradients in each step.
struct Job {
  Tensor a, b;
  std::unique_ptr<optim::Optimizer> optimizer;
  Job(const std::string& kind, const nlohmann::json& options)
      : a(array_of({0.5f, -1, 2}), true), b(ops::full({2, 2}, 0.25), true) {
    optimizer = testing::make_optimizer(kind, {{"layer.a", a}, {"layer.b", b}}, options);
  }
  void steps(int first, int last) {
    for (int step = first; step < last; ++step) {
      const auto s = static_cast<float>(step);
      a.set_grad(array_of({0.1f * s - 0.3f, 0.2f, -0.05f * s}));
      b.set_grad(step % 2 == 0 ? Array() : ops::full({2, 2}, 0.3 - 0.1 * step));
      optimizer->step();
    }
  }
};

std::vector<std::pair<std::string, nlohmann::json>> all() {
  return {{"SGD", {{"lr", 0.1}, {"momentum", 0.9}, {"weight_decay", 0.01}, {"nesterov", true}}},
          {"Adam", {{"lr", 0.05}, {"betas", {0.8, 0.95}}, {"amsgrad", true}, {"weight_decay", 0.1}}},
          {"AdamW", {{"lr", 0.05}, {"weight_decay", 0.2}, {"maximize", true}}},
          {"RMSprop", {{"lr", 0.01}, {"momentum", 0.5}, {"centered", true}}},
          {"Adagrad", {{"lr", 0.1}, {"lr_decay", 0.1}, {"initial_accumulator_value", 0.1}}}};
}

TEST(StateFile, GoesRound) {
  const testing::TemporaryFolder folder;
  for (const auto& [kind, options] : all()) {
    SCOPED_TRACE(kind);
    Job first(kind, options), second(kind, {{"lr", 7}});
    first.steps(0, 5);
    second.a.set_value(first.a.value().clone());
    second.b.set_value(first.b.value().clone());
    const auto path = folder.path() / (kind + ".safetensors");
    save_optimizer(path, *first.optimizer);
    load_optimizer(path, *second.optimizer);
    EXPECT_EQ(first.optimizer->group_options(0), second.optimizer->group_options(0));
    first.steps(5, 8);
    second.steps(5, 8);
    testing::expect_same(first.a.value(), second.a.value(), "a");
    testing::expect_same(first.b.value(), second.b.value(), "b");
  }
}

TEST(StateFile, WhatDoesNotFitIsAnErrorAndChangesNothing) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "adam.safetensors";
  Job job("Adam", {{"lr", 0.5}, {"amsgrad", true}});
  job.steps(0, 3);
  save_optimizer(path, *job.optimizer);
  Job sgd("SGD", {});
  EXPECT_ERROR(load_optimizer(path, *sgd.optimizer), "adam.safetensors", "Adam", "SGD");
  const Tensor other(ops::ones({3}), true);
  const auto others = testing::make_optimizer("Adam", {{"other", other}}, {});
  EXPECT_ERROR(load_optimizer(path, *others), "group 0", "other parameters");
  const Tensor a(ops::ones({7}), true), b(ops::ones({2, 2}), true);
  const auto wide = testing::make_optimizer("Adam", {{"layer.a", a}, {"layer.b", b}}, {{"lr", 0.25}});
  EXPECT_ERROR(load_optimizer(path, *wide), "layer.a", "(3)", "(7)");
  EXPECT_EQ(wide->lr(), 0.25);
  write_safetensors(path, {});
  EXPECT_ERROR(load_optimizer(path, *job.optimizer), "metadata");
  write_safetensors(path, {}, {{"optimizer", "Adam"}, {"param_groups", "[{]"}});
  EXPECT_ERROR(load_optimizer(path, *job.optimizer), "param_groups");
  write_safetensors(
      path, {},
      {{"optimizer", "SGD"}, {"param_groups", R"([{"lr": 1, "maximize": true, "params": ["layer.a", "layer.b"]}])"}});
  EXPECT_ERROR(load_optimizer(path, *sgd.optimizer), "maximize");
}

// The Python code of docs/optimizers.md, unchanged.
std::string documented_python() {
  std::ifstream file(std::string(TANDEM_SOURCE_DIR) + "/docs/optimizers.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string page = text.str(), fence = "```python\n";
  const auto begin = page.find(fence);
  TANDEM_CHECK(begin != std::string::npos, "docs/optimizers.md has no Python");
  return page.substr(begin + fence.size(), page.find("```", begin + fence.size()) - begin - fence.size());
}

// Tandem begins the training, PyTorch continues it, and Tandem finishes it. The result is as if only one had trained.
TEST(StateFile, TrainingGoesOnInPyTorchAndBack) {
  TANDEM_NEEDS_TORCH();
  const testing::TemporaryFolder folder;
  const std::string script = documented_python() + R"(
import sys
import torch
from safetensors.torch import load_file

folder = sys.argv[1]
for kind in sys.argv[2:]:
    values = load_file(f"{folder}/{kind}_values.safetensors")
    parameters = [torch.nn.Parameter(values[name]) for name in ("layer.a", "layer.b")]
    optimizer = getattr(torch.optim, kind)(parameters, lr=1.0)
    optimizer.load_state_dict(read_optimizer(f"{folder}/{kind}.safetensors"))
    for step in range(5, 9):
        parameters[0].grad = torch.tensor([0.1 * step - 0.3, 0.2, -0.05 * step])
        parameters[1].grad = None if step % 2 == 0 else torch.full((2, 2), 0.3 - 0.1 * step)
        optimizer.step()
    write_optimizer(f"{folder}/{kind}_after.safetensors", optimizer, ["layer.a", "layer.b"])
    values = {"layer.a": parameters[0].data, "layer.b": parameters[1].data}
    save_file(values, f"{folder}/{kind}_values_after.safetensors")
)";
  std::vector<std::string> command = {"/usr/bin/env", testing::torch_python(), "-c", script, folder.path()};
  for (const auto& [kind, options] : all()) {
    Job job(kind, options);
    job.steps(0, 5);
    save_optimizer(folder.path() / (kind + ".safetensors"), *job.optimizer);
    const std::vector<NamedArray> values = {{"layer.a", job.a.value()}, {"layer.b", job.b.value()}};
    write_safetensors(folder.path() / (kind + "_values.safetensors"), values);
    command.push_back(kind);
  }
  const auto outcome = testing::run_process(command);
  if (outcome.err.find("No module named 'safetensors'") != std::string::npos)
    GTEST_SKIP() << "NOT RUN: " << testing::torch_python() << " has no safetensors";
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const auto& [kind, options] : all()) {
    SCOPED_TRACE(kind);
    Job whole(kind, options), ours(kind, {{"lr", 7}});
    whole.steps(0, 12);
    const auto values = read_safetensors(folder.path() / (kind + "_values_after.safetensors")).arrays;
    for (const auto& [name, array] : values) Array((name == "layer.a" ? ours.a : ours.b).value()).copy_from(array);
    load_optimizer(folder.path() / (kind + "_after.safetensors"), *ours.optimizer);
    ours.steps(9, 12);
    testing::expect_close(whole.a.value(), ours.a.value(), 1e-6, "a");
    testing::expect_close(whole.b.value(), ours.b.value(), 1e-6, "b");
  }
}

}  // namespace
}  // namespace tandem
