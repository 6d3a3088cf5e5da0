// The graph that operations leave behind, and the state that a Tensor handle points to. This header is for the engine;
// users include tensor.h.
#pragma once

#include <tandem/autograd/operation.h>

#include <atomic>
#include <list>
#include <thread>

namespace tandem::autograd {

// The destination of the gradient of one input: `node`, the operation that made the input, or `leaf`. If both are null,
// the gradient goes nowhere.
struct Edge {
  std::shared_ptr<GraphNode> node;
  std::shared_ptr<TensorState> leaf;
};

struct GraphNode {
  const char* operation;
  std::uint64_t sequence;  // order of creation: the engine runs the latest first
  std::vector<Edge> edges;
  Backward backward;                       // empty after a run without retain_graph
  std::shared_ptr<Recomputed> recomputed;  // computes the output again; null where closures hold it
  Needs needs;
  // The shape, dtype and device of the output. The gradient that arrives has this shape.
  Shape shape;
  DType dtype;
  Device device;
  // The module that called the operation: "blocks.2.mlp (Linear)" for errors, null outside of DetectAnomaly, and its
  // path in the network for profiles, null when none is written.
  std::unique_ptr<const std::string> caller;
  const char* module_path = nullptr;
  std::weak_ptr<TensorState> retained;  // the result, if it keeps its gradient (Tensor::retain_grad)

  ~GraphNode();
};

struct TensorState {
  Array value;
  bool requires_grad = false;
  std::shared_ptr<GraphNode> node;  // the operation that made the value; null for a leaf
  bool shares_memory = false;       // another Tensor of the graph shows the same memory: one is a view of the other

  Array grad;  // the gradient; its numbers mean something only while has_grad is true
  bool has_grad = false;
  // True if another object owns the memory of `grad`, such as a communication bucket. Gradients are then written into
  // that memory, and `grad` is never replaced.
  bool grad_is_fixed = false;
  std::list<std::function<void()>> grad_ready_hooks;
  std::atomic<std::thread::id> pass_of{};  // the thread whose backward pass comes to this leaf now; none: no thread

  void accumulate(Array gradient);

  // `grad` for a program. A backward pass that writes the next gradient calls end_loan(): a program that has kept the
  // Array gets an Error when it reads numbers, and not the numbers of another step.
  Array lend_grad();
  void end_loan();

 private:
  std::shared_ptr<Storage> loan_;  // the memory of `grad`, as the program sees it
};

// The destination of a gradient of `tensor`. It goes nowhere when `tensor` requires no gradient.
Edge edge_to(const Tensor& tensor);

// The sequence number that the next node on this thread will get.
std::uint64_t next_sequence();

// Makes a node whose inputs are not Tensors. `edges` say where the gradients go.
std::shared_ptr<GraphNode> make_node(const char* operation, std::vector<Edge> edges, Needs needs, const Array& value,
                                     Backward backward);

// Continues the backward pass that is running through the graph behind `root`, as if that graph had been there from the
// start. A backward closure calls this function when it records its graph only once its gradient has arrived
// (nn/recompute.h). An edge out of the new graph may lead only to a node or a leaf to which the closure's own node has
// an edge, too. Because of the edge of the closure's node, the pass still waits there for a gradient. Without it, the
// pass may have finished that node or leaf before the gradient of the new graph comes.
void extend_backward(const Tensor& root, Array gradient);

}  // namespace tandem::autograd
