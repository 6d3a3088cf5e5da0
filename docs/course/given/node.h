// Numbers that remember how they were computed, for the tasks of day 1.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "check.h"

namespace course {

struct Node;
using Tensor = std::shared_ptr<Node>;

struct Node {
  std::vector<float> value;
  std::vector<float> grad;                 // of the loss, with respect to each number of `value`
  std::vector<Tensor> inputs{};            // it was computed from these; empty: a leaf
  std::function<void(Node&)> send_back{};  // adds to the gradients of the inputs, from its own gradient
  std::function<void()> on_grad_ready{};   // the hook of a leaf
  int owed = 0;                            // how many gradients are still to come in this pass
};

inline Tensor make(std::vector<float> value, std::vector<Tensor> inputs = {}) {
  const std::size_t size = value.size();
  return std::make_shared<Node>(Node{std::move(value), std::vector<float>(size), std::move(inputs)});
}

// The sum of two arrays of one size: an example for the others.
inline Tensor add(const Tensor& a, const Tensor& b) {
  Tensor y = make(a->value, {a, b});
  for (std::size_t i = 0; i < y->value.size(); ++i) y->value[i] += b->value[i];
  y->send_back = [](Node& y) {
    for (std::size_t i = 0; i < y.grad.size(); ++i) {
      y.inputs[0]->grad[i] += y.grad[i];
      y.inputs[1]->grad[i] += y.grad[i];
    }
  };
  return y;
}

}  // namespace course
