#pragma once
#include "node.h"

inline void count_owed(const course::Tensor& loss) {
  std::vector<course::Node*> nodes{loss.get()};
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const auto& input : nodes[i]->inputs)
      if (input->owed++ == 0) nodes.push_back(input.get());
}

inline void backward(const course::Tensor& loss) {
  count_owed(loss);
  loss->grad[0] += 1;
  std::vector<course::Node*> ready{loss.get()};
  for (std::size_t i = 0; i < ready.size(); ++i) {
    course::Node& node = *ready[i];
    if (node.send_back) node.send_back(node);
    for (const auto& input : node.inputs) {
      if (--input->owed > 0) continue;
      if (input->inputs.empty() && input->on_grad_ready) input->on_grad_ready();
      ready.push_back(input.get());
    }
  }
}
