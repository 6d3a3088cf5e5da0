// The first run records its history like any forward pass. The parameters and inputs to which the history leads become
// the edges of one node. Then the history is discarded. When the node's gradient arrives, the second run records the
// history again, and the running backward pass continues through it. Leaves therefore count their uses, run their hooks
// and add up their gradients in the same order as without recompute.
#include <tandem/nn/recompute.h>

#include <tandem/autograd/autocast.h>
#include <tandem/autograd/graph.h>
#include <tandem/core/base/temporarily.h>
#include <tandem/core/random/random.h>

#include <algorithm>
#include <unordered_set>

namespace tandem::nn {

namespace {

using autograd::Edge;
using autograd::Gradients;
using autograd::GraphNode;
using autograd::Needs;
using autograd::Saved;
using autograd::TensorState;

// Returns the edges by which the history of `result` leaves the nodes that were recorded from `start` on. Each edge
// occurs once, in a fixed order.
std::vector<Edge> boundary(const Tensor& result, std::uint64_t start) {
  std::vector<Edge> found;
  std::unordered_set<const void*> seen;
  std::vector<Edge> stack{autograd::edge_to(result)};
  while (!stack.empty()) {
    const Edge edge = std::move(stack.back());
    stack.pop_back();
    const void* place = edge.leaf ? static_cast<const void*>(edge.leaf.get()) : edge.node.get();
    if (!place || !seen.insert(place).second) continue;
    if (edge.leaf || edge.node->sequence < start) found.push_back(edge);
    else stack.insert(stack.end(), edge.node->edges.rbegin(), edge.node->edges.rend());
  }
  return found;
}

bool same_places(const std::vector<Edge>& a, const std::vector<Edge>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Edge& x, const Edge& y) { return x.leaf == y.leaf && x.node == y.node; });
}

// An input for the second run. It is not stored as a Tensor: if the Tensor was later changed in place, its handle would
// lead to the operation that changed it and could keep the graph alive.
struct Input {
  Saved value;
  Edge edge;

  explicit Input(const Tensor& tensor) {
    if (!tensor.defined()) return;
    value = Saved("recompute", tensor.value());
    edge = autograd::edge_to(tensor);
    is_defined = true;
  }
  Tensor tensor() const {
    if (!is_defined) return {};
    const Array& checked = value.get();
    if (edge.leaf) return Tensor(edge.leaf);
    auto state = std::make_shared<TensorState>();
    state->value = checked;
    state->node = edge.node;
    state->requires_grad = edge.node != nullptr;
    return Tensor(std::move(state));
  }

 private:
  bool is_defined = false;
};

}  // namespace

Tensor detail::recompute(std::function<Tensor(std::span<const Tensor>)> function, std::vector<Tensor> inputs) {
  if (!grad_enabled()) return function(inputs);
  const std::vector<Input> kept(inputs.begin(), inputs.end());
  const Generator random = default_generator();
  const DType low = autocast_dtype();
  const std::uint64_t start = autograd::next_sequence();
  const Tensor result = function(inputs);
  const Edge root = autograd::edge_to(result);
  if (!root.node || root.node->sequence < start) return result;  // the function recorded nothing

  const std::vector<Edge> edges = boundary(result, start);
  std::vector<Saved> leaves;
  for (const Edge& edge : edges)
    if (edge.leaf) leaves.emplace_back("recompute", edge.leaf->value);
  Needs needs;
  for (std::size_t i = 0; i < edges.size(); ++i) needs.set(static_cast<int>(i));

  auto again = [function = std::move(function), kept, random, low, places = edges, leaves = std::move(leaves),
                shape = result.shape()](const Array& gradient, Needs) -> Gradients {
    for (const Saved& leaf : leaves) leaf.get();
    std::vector<Tensor> same_inputs;
    for (const Input& input : kept) same_inputs.push_back(input.tensor());
    const EnableGrad enable_grad;
    const Autocast autocast(low);
    const Temporarily<Generator> same_random(default_generator(), random);
    const Temporarily<bool> second_run(recomputing, true);
    const std::uint64_t begin = autograd::next_sequence();
    const Tensor same = function(same_inputs);
    TANDEM_CHECK(same.shape() == shape && same_places(boundary(same, begin), places),
                 "recompute: the function computed a different result when it ran again for the backward pass (first ",
                 shape, " from ", places.size(), " parameters and inputs, then ", same.shape(), " from ",
                 boundary(same, begin).size(),
                 "): it must not depend on anything that changes between the forward and the backward pass");
    autograd::extend_backward(same, gradient);
    return Gradients(places.size());
  };
  auto state = std::make_shared<TensorState>();
  state->value = result.value();
  state->node = autograd::make_node("recompute", edges, needs, result.value(), std::move(again));
  state->requires_grad = true;
  state->shares_memory = result.state()->shares_memory;
  return Tensor(std::move(state));
}

Tensor recompute_sequential(Sequential& modules, std::int64_t segments, const Tensor& input) {
  const std::int64_t size = modules.size();
  TANDEM_CHECK(0 < segments && segments <= size, "recompute_sequential: ", size, " modules can't be divided into ",
               segments, " segments");
  Tensor x = input;
  for (std::int64_t i = 0; i < segments; ++i) {
    const std::int64_t begin = size * i / segments, end = size * (i + 1) / segments;
    x = recompute([&modules, begin, end](const Tensor& part) { return modules.run(part, begin, end); }, x);
  }
  return x;
}

}  // namespace tandem::nn
