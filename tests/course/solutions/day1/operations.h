#pragma once
#include <cmath>

#include "node.h"

inline course::Tensor mul(const course::Tensor& a, const course::Tensor& b) {
  auto y = course::make(a->value, {a, b});
  for (std::size_t i = 0; i < y->value.size(); ++i) y->value[i] *= b->value[i];
  y->send_back = [](course::Node& y) {
    course::Node &a = *y.inputs[0], &b = *y.inputs[1];
    for (std::size_t i = 0; i < y.grad.size(); ++i) {
      a.grad[i] += y.grad[i] * b.value[i];
      b.grad[i] += y.grad[i] * a.value[i];
    }
  };
  return y;
}

inline course::Tensor tanh(const course::Tensor& x) {
  auto y = course::make(x->value, {x});
  for (float& value : y->value) value = std::tanh(value);
  y->send_back = [](course::Node& y) {
    for (std::size_t i = 0; i < y.grad.size(); ++i) y.inputs[0]->grad[i] += y.grad[i] * (1 - y.value[i] * y.value[i]);
  };
  return y;
}

inline course::Tensor sum(const course::Tensor& x) {
  auto y = course::make({0}, {x});
  for (const float value : x->value) y->value[0] += value;
  y->send_back = [](course::Node& y) {
    for (float& grad : y.inputs[0]->grad) grad += y.grad[0];
  };
  return y;
}
