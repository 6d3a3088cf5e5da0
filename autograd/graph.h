// The graph that operations leave behind, and what a Tensor handle points to. For the engine; users see tensor.h.
#pragma once

#include <tandem/autograd/operation.h>

#include <list>

namespace tandem::autograd {

// Where the gradient of one input goes: to the operation that made it, or to a leaf, or (both null) nowhere.
struct Edge {
  std::shared_ptr<GraphNode> node;
  std::shared_ptr<TensorState> leaf;
};

struct GraphNode {
  const char* operation;
  std::uint64_t sequence;  // order of creation: the engine runs the latest first
  std::vector<Edge> edges;
  Backward backward;  // empty once it has run without retain_graph
  Needs needs;
  Shape shape;  // of the output, and so of the gradient that arrives
  DType dtype;
  Device device;

  ~GraphNode();
};

struct TensorState {
  Array value;
  bool requires_grad = false;
  std::shared_ptr<GraphNode> node;  // what made it; null for a leaf
  bool shares_memory = false;       // with another Tensor of the graph: one is a view of the other

  Array grad;  // memory of the gradient; meaningful while has_grad
  bool has_grad = false;
  bool grad_is_fixed = false;  // `grad` belongs to somebody (a bucket): gradients are written into it
  std::list<std::function<void()>> grad_ready_hooks;

  void accumulate(Array gradient);
};

// Where a gradient of `tensor` goes; nowhere when it requires none.
Edge edge_to(const Tensor& tensor);

// What the next node recorded on this thread will have as its sequence.
std::uint64_t next_sequence();

// A node without inputs that are Tensors: `edges` say where its gradients go.
std::shared_ptr<GraphNode> make_node(const char* operation, std::vector<Edge> edges, Needs needs, const Array& value,
                                     Backward backward);

// For a closure that computes its graph only when its gradient arrives (nn/recompute.h): the backward pass that is
// running goes on through the graph behind `root`, as if it had been there from the start. Where that graph leaves what
// was recorded since, it may only lead to where edges of the closure's own node lead.
void extend_backward(const Tensor& root, Array gradient);

}  // namespace tandem::autograd
