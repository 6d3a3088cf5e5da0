// The recorded graph, and the state to which a Tensor handle points. This header is for the engine; users include
// tensor.h.
#pragma once

#include <tandem/autograd/operation.h>

#include <atomic>
#include <list>
#include <thread>

namespace tandem::autograd {

// The destination of one input's gradient: `node`, the operation that made the input, or `leaf`. If both are null, the
// gradient is discarded.
struct Edge {
  std::shared_ptr<GraphNode> node;
  std::shared_ptr<TensorState> leaf;
};

struct GraphNode {
  const char* operation;
  std::uint64_t sequence;  // creation order: the engine runs the latest first
  std::vector<Edge> edges;
  Backward backward;                       // empty after a backward pass without retain_graph
  std::shared_ptr<Recomputed> recomputed;  // recomputes the output; null if closures hold the output
  Needs needs;
  // The shape, dtype and device of the output. The gradient that arrives has this shape.
  Shape shape;
  DType dtype;
  Device device;
  // The module that called the operation. caller is for errors, as in "blocks.2.mlp (Linear)", and null without a
  // DetectAnomaly. module_path is the module's path in the network for profiles, and null if no profile is written.
  std::unique_ptr<const std::string> caller;
  const char* module_path = nullptr;
  std::weak_ptr<TensorState> retained;  // the result, if it keeps its gradient (Tensor::retain_grad)

  ~GraphNode();
};

struct TensorState {
  Array value;
  bool requires_grad = false;
  std::shared_ptr<GraphNode> node;  // the operation that made the value; null for a leaf
  bool shares_memory = false;       // another Tensor of the graph uses the same memory: one is a view of the other

  Array grad;  // the gradient; its contents are undefined unless has_grad is true
  bool has_grad = false;
  // True if another object, such as a communication bucket, owns the memory of `grad`. Gradients are then written into
  // that memory, and `grad` is never replaced.
  bool grad_is_fixed = false;
  std::list<std::function<void()>> grad_ready_hooks;
  std::atomic<std::thread::id> pass_of{};  // the thread whose backward pass reaches this leaf now; else the default id

  void accumulate(Array gradient);

  // Returns `grad` for use by a program. A backward pass that writes the next gradient calls end_loan(). A program that
  // still holds the Array then gets an Error when it reads the Array, instead of the numbers of another step.
  Array lend_grad();
  void end_loan();

 private:
  std::shared_ptr<Storage> loan_;  // the memory of `grad` as the program sees it
};

// Returns the destination of a gradient of `tensor`. The gradient is discarded if `tensor` requires none.
Edge edge_to(const Tensor& tensor);

// The sequence number that the next node on this thread will get.
std::uint64_t next_sequence();

// Creates a node whose inputs are not Tensors. `edges` are the destinations of the gradients.
std::shared_ptr<GraphNode> make_node(const char* operation, std::vector<Edge> edges, Needs needs, const Array& value,
                                     Backward backward);

// Adds the graph that ends at `root` to the running backward pass, as if it had been there from the start. A backward
// closure calls this function if it records its graph only after its gradient has arrived (nn/recompute.h). An edge out
// of the new graph may lead only to a node or leaf to which the closure's own node also has an edge. Because of that
// edge, the pass is still waiting there for a gradient. Without it, the pass may have finished that node or leaf before
// the new graph's gradient arrives.
void extend_backward(const Tensor& root, Array gradient);

}  // namespace tandem::autograd
