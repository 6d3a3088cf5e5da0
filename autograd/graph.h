// The graph that operations leave behind, and what a Tensor handle points to. For the engine; users see tensor.h.
#pragma once

#include <tandem/autograd/operation.h>

#include <list>

namespace tandem::autograd {

// Where the gradient of one input goes: to the operation that made it, or to a leaf, or (both null) nowhere.
struct Edge {
  std::shared_ptr<Node> node;
  std::shared_ptr<TensorState> leaf;
};

struct Node {
  const char* operation;
  std::uint64_t sequence;  // order of creation: the engine runs the latest first
  std::vector<Edge> edges;
  Backward backward;  // empty once it has run without retain_graph
  Needs needs;
  Shape shape;  // of the output, and so of the gradient that arrives
  DType dtype;
  Device device;

  ~Node();
};

struct TensorState {
  Array value;
  bool requires_grad = false;
  std::shared_ptr<Node> node;  // what made it; null for a leaf
  bool shares_memory = false;  // with another Tensor of the graph: one is a view of the other

  Array grad;  // memory of the gradient; meaningful while has_grad
  bool has_grad = false;
  bool grad_is_fixed = false;  // `grad` belongs to somebody (a bucket): gradients are written into it
  std::list<std::function<void()>> grad_ready_hooks;

  void accumulate(Array gradient);
};

}  // namespace tandem::autograd
