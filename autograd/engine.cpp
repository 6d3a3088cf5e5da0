// The backward engine. It applies the chain rule over the recorded graph without recursion.
//
// The backward step of an operation runs after the steps of all operations that used its result. If several operations
// are ready, the one that was recorded last runs first. The gradient of a leaf is final when the last operation that
// used the leaf has run. The leaf's hooks run at that moment, and communication can start while the rest of the
// backward pass continues.
#include <tandem/autograd/anomaly.h>
#include <tandem/autograd/gradient_place.h>
#include <tandem/autograd/graph.h>
#include <tandem/core/array/memory_order.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/device/recording.h>
#include <tandem/core/ops.h>

#include <map>
#include <mutex>
#include <queue>
#include <sstream>
#include <thread>
#include <unordered_map>
#include <utility>

namespace tandem {

using autograd::Edge;
using autograd::Gradients;
using autograd::GraphNode;
using autograd::TensorState;

namespace {

class BackwardPass;
thread_local BackwardPass* running = nullptr;

// The gradients that autograd::grad() requested, keyed by their leaf or node. A gradient is undefined until it arrives.
struct Wanted {
  std::unordered_map<const TensorState*, Array> leaves;
  std::unordered_map<const GraphNode*, Array> nodes;
};

// Returns whether a sum may overwrite a gradient that is being delivered.
bool may_be_written(const Array& gradient) {
  return autograd::is_unshared(gradient) && (gradient.is_contiguous() || gradient.is_channels_last());
}

class BackwardPass {
 public:
  // With `wanted`, gradients go to `wanted` and not to the leaves.
  explicit BackwardPass(bool retain_graph, Wanted* wanted = nullptr)
      : retain_graph_(retain_graph), wanted_(wanted), outer_(std::exchange(running, this)) {}
  ~BackwardPass() {
    running = outer_;
    for (const auto& leaf : claimed_) leaf->pass_of = std::thread::id();
  }

  void run(const std::vector<Edge>& roots, std::vector<Array> gradients) {
    for (const Edge& root : roots) count_uses(root);
    for (std::size_t i = 0; i < roots.size(); ++i) deliver(roots[i], std::move(gradients[i]));
    while (!ready_.empty()) {
      const auto node = ready_.top();
      ready_.pop();
      run_node(*node);
    }
    // The loop uses an index, not iterators, because a callback may register another callback.
    for (std::size_t i = 0; i < callbacks_.size(); ++i) callbacks_[i]();
  }

  // Adds a graph that was recorded while the pass runs. The graph ends at `root`.
  void extend(const Edge& root, Array gradient) {
    count_uses(root);
    deliver(root, std::move(gradient));
  }

  void add_callback(std::function<void()> callback) { callbacks_.push_back(std::move(callback)); }

  bool reaches(const TensorState* leaf) const { return leaves_.count(leaf) > 0; }

  // For the node that is running. place() returns memory to which the node may write the gradient of an input. take()
  // returns the gradient that has already arrived for an input, and the node adds to it (gradient_place.h).
  Array place(std::size_t input) const { return input < places_.size() ? places_[input] : Array(); }
  Array take(std::size_t input) {
    if (!node_ || input >= node_->edges.size()) return {};
    const auto found = pending_.find(node_->edges[input].node.get());
    if (found == pending_.end() || !found->second.gradient.defined()) return {};
    Array& gradient = found->second.gradient;
    if (!may_be_written(gradient)) return {};
    found->second.is_ours = false;
    return std::exchange(gradient, Array());
  }

 private:
  struct Pending {
    std::int64_t uses = 0;  // number of gradients that have not arrived yet
    Array gradient;
    bool is_ours = false;  // whether the pass made `gradient` and may therefore add to it in place
  };
  struct LaterMade {
    bool operator()(const std::shared_ptr<GraphNode>& a, const std::shared_ptr<GraphNode>& b) const {
      return a->sequence < b->sequence;
    }
  };

  void count_uses(const Edge& root) {
    std::vector<const Edge*> stack{&root};
    while (!stack.empty()) {
      const Edge& edge = *stack.back();
      stack.pop_back();
      if (edge.leaf && ++leaves_[edge.leaf.get()] == 1 && !wanted_) claim(edge.leaf);
      if (!edge.node) continue;
      // the node was seen before, and its inputs are already counted
      if (++pending_[edge.node.get()].uses > 1) continue;
      TANDEM_CHECK(edge.node->backward, "backward: the graph behind ", edge.node->operation,
                   " has been freed by an earlier backward(); pass {.retain_graph = true} to the earlier call");
      for (const Edge& input : edge.node->edges) stack.push_back(&input);
    }
  }

  // Two threads that add to this gradient at once would lose part of the sum. A pass that runs inside another one, on
  // the same thread, is allowed.
  void claim(const std::shared_ptr<TensorState>& leaf) {
    const auto me = std::this_thread::get_id();
    std::thread::id other;
    if (leaf->pass_of.compare_exchange_strong(other, me)) claimed_.push_back(leaf);
    else
      TANDEM_CHECK(other == me, "backward: another thread is running a backward pass to the same leaf of shape ",
                   leaf->value.shape(),
                   ", and both would add to its gradient at the same time: run them one after the other, give "
                   "each thread a copy of the model, or use autograd::grad()");
  }

  // Delivers one gradient to the target of an edge. An undefined gradient means zero.
  void deliver(const Edge& edge, Array gradient) {
    if (edge.leaf && wanted_) {
      const auto found = wanted_->leaves.find(edge.leaf.get());
      if (found == wanted_->leaves.end() || !gradient.defined()) return;
      Array& sum = found->second;
      sum = sum.defined() ? ops::zip(functors::Add{}, sum, gradient) : std::move(gradient);
    } else if (edge.leaf) {
      if (gradient.defined()) edge.leaf->accumulate(std::move(gradient));
      if (--leaves_[edge.leaf.get()] == 0) {
        edge.leaf->end_loan();
        const auto hooks = edge.leaf->grad_ready_hooks;  // copied, because a hook may remove hooks
        for (const auto& hook : hooks) hook();
      }
    } else if (edge.node) {
      Pending& pending = pending_[edge.node.get()];
      if (gradient.defined()) {
        if (!pending.gradient.defined()) {
          pending.gradient = std::move(gradient);
        } else if (pending.is_ours) {
          ops::add_(pending.gradient, gradient);
        } else if (may_be_written(gradient) && gradient.dtype() == pending.gradient.dtype()) {
          ops::add_(gradient, pending.gradient);
          pending.gradient = std::move(gradient);
          pending.is_ours = true;
        } else {
          pending.gradient = ops::zip(functors::Add{}, pending.gradient, gradient);
          pending.is_ours = true;
        }
      }
      if (--pending.uses == 0) ready_.push(edge.node);
    }
  }

  void run_node(GraphNode& node) {
    // Remove the entry, because another node may get the same address: a node that extend() added is destroyed after it
    // has run.
    const Array gradient = std::move(pending_.extract(&node).mapped().gradient);
    Gradients gradients(node.edges.size());
    if (gradient.defined() && wanted_) {
      if (const auto found = wanted_->nodes.find(&node); found != wanted_->nodes.end()) found->second = gradient;
    } else if (const auto retained = node.retained.lock(); gradient.defined() && retained) {
      retained->accumulate(gradient);
      retained->end_loan();
    }
    if (gradient.defined()) {
      node.needs.set_last_run(!retain_graph_);
      if (!retain_graph_) node.recomputed = nullptr;  // closures that need it hold their own handle
      places_ = places_for(node);
      node_ = &node;
      Scope scope(node.operation, " backward");
      if (scope.takes_notes()) note(scope, node);
      gradients = node.backward(gradient.to(node.dtype), node.needs);
      places_.clear();
      node_ = nullptr;
      TANDEM_CHECK(gradients.size() == node.edges.size(), node.operation, ": backward returned ", gradients.size(),
                   " gradients, expected one for each of the ", node.edges.size(), " inputs");
    }
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const Edge& edge = node.edges[i];
      if (!gradients[i].defined() || (!edge.leaf && !edge.node)) continue;
      const Shape& shape = edge.leaf ? edge.leaf->value.shape() : edge.node->shape;
      TANDEM_CHECK(gradients[i].shape() == shape, node.operation, ": backward gave input ", i, " a gradient of shape ",
                   gradients[i].shape(), ", but the input has shape ", shape);
      const Device device = edge.leaf ? edge.leaf->value.device() : edge.node->device;
      if (autograd::searches_anomalies()) check_gradient(node, i, gradients[i]);
      TANDEM_CHECK(gradients[i].device() == device, node.operation, ": backward gave input ", i, " a gradient on ",
                   gradients[i].device(), ", but the input is on ", device);
    }
    if (!retain_graph_) node.backward = nullptr;
    // Deliver to leaves first, because other ranks may be waiting for their gradients.
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (node.edges[i].leaf) deliver(node.edges[i], std::move(gradients[i]));
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (node.edges[i].node) deliver(node.edges[i], std::move(gradients[i]));
  }

  // The memory to which the node may write the gradients of its inputs. This is the fixed memory of leaves that receive
  // no other gradient.
  std::vector<Array> places_for(const GraphNode& node) {
    std::vector<Array> places;
    for (std::size_t i = 0; i < node.edges.size() && !wanted_; ++i) {
      const TensorState* leaf = node.edges[i].leaf.get();
      if (!leaf || !leaf->grad_is_fixed || leaf->has_grad || leaves_[leaf] != 1) continue;
      if (!MemoryOrder(leaf->grad).fits(leaf->grad)) continue;
      places.resize(node.edges.size());
      places[i] = leaf->grad;
    }
    return places;
  }

  static void note(Scope& scope, const GraphNode& node) {
    std::ostringstream shape;
    shape << node.shape;
    scope.note("gradient", shape.str());
    if (node.module_path) scope.note("module", node.module_path);
  }

  static void check_gradient(const GraphNode& node, std::size_t input, const Array& gradient) {
    const std::string found = autograd::anomaly_in(gradient);
    TANDEM_CHECK(found.empty(), node.caller && !node.caller->empty() ? "in " + *node.caller + ": " : "",
                 "DetectAnomaly: in the gradient that ", node.operation, " gives its input ", input, ", ", found);
  }

  const bool retain_graph_;
  Wanted* const wanted_;
  BackwardPass* const outer_;
  std::unordered_map<const GraphNode*, Pending> pending_;
  std::unordered_map<const TensorState*, std::int64_t> leaves_;
  std::vector<std::shared_ptr<TensorState>> claimed_;  // the leaves that this pass claimed and no enclosing pass had
                                                       // claimed
  std::priority_queue<std::shared_ptr<GraphNode>, std::vector<std::shared_ptr<GraphNode>>, LaterMade> ready_;
  std::vector<std::function<void()>> callbacks_;
  const GraphNode* node_ = nullptr;  // the node that is running
  std::vector<Array> places_;
};

// Returns the number 1. It is never overwritten, because autograd writes only to memory that a single Array refers to.
// On a GPU it is cached, because creating it takes a kernel.
Array one(const Shape& shape, DType dtype, Device device) {
  const auto make = [&] { return ops::full({}, 1, dtype, device); };
  if (device.is_cpu()) return make().reshape(shape);
  // never destroyed, because the driver may already be gone at exit
  static auto* kept = new std::map<std::pair<int, DType>, Array>;
  static std::mutex mutex;  // guards kept
  const std::lock_guard lock(mutex);
  const auto found = kept->find({device.index, dtype});
  if (found != kept->end()) return found->second.reshape(shape);
  const Array made = make();
  // Each replay of a recorded graph recomputes the graph's arrays in memory that is freed with the graph, so don't
  // cache those.
  if (!is_recording_graph()) kept->emplace(std::pair(device.index, dtype), made);
  return made.reshape(shape);
}

// The gradient from which a pass starts at `tensor`: `given`, or 1 if `given` is undefined.
Array first_gradient(const char* caller, const Tensor& tensor, Array given) {
  TANDEM_CHECK(tensor.requires_grad(), caller,
               ": this tensor requires no gradient (was it computed under NoGrad, or from inputs "
               "without requires_grad?)");
  if (!given.defined()) {
    TANDEM_CHECK(tensor.numel() == 1, caller, ": shape ", tensor.shape(),
                 " has more than one element, but backward starts from one number: take sum(x) or mean(x), or pass the "
                 "gradient of each element (.gradient = ...)");
    return one(tensor.shape(), tensor.dtype(), tensor.device());
  }
  TANDEM_CHECK(given.shape() == tensor.shape() && given.device() == tensor.device(), caller, ": the gradient is ",
               given.shape(), " on ", given.device(), ", but the tensor is ", tensor.shape(), " on ", tensor.device());
  return given;
}

}  // namespace

void Tensor::backward(const BackwardOptions& options) const {
  const Scope scope("backward");
  Array gradient = first_gradient("backward", *this, options.gradient);
  const NoGrad no_grad;
  BackwardPass(options.retain_graph).run({autograd::edge_to(*this)}, {std::move(gradient)});
}

std::vector<Array> autograd::grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                                  const GradOptions& options) {
  const Scope scope("grad");
  TANDEM_CHECK(!outputs.empty(), "grad: expected at least one output, got none");
  TANDEM_CHECK(options.gradients.empty() || options.gradients.size() == outputs.size(),
               "grad: ", options.gradients.size(), " gradients were given for ", outputs.size(), " outputs");
  Wanted wanted;
  for (const Tensor& input : inputs) {
    TANDEM_CHECK(input.requires_grad(), "grad: an input of shape ", input.shape(), " requires no gradient");
    const Edge edge = edge_to(input);
    if (edge.leaf) wanted.leaves[edge.leaf.get()];
    else wanted.nodes[edge.node.get()];
  }
  std::vector<Edge> roots;
  std::vector<Array> gradients;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    roots.push_back(edge_to(outputs[i]));
    gradients.push_back(first_gradient("grad", outputs[i], options.gradients.empty() ? Array() : options.gradients[i]));
  }
  const NoGrad no_grad;
  BackwardPass(options.retain_graph, &wanted).run(roots, std::move(gradients));
  std::vector<Array> result;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Edge edge = edge_to(inputs[i]);
    result.push_back(edge.leaf ? wanted.leaves.at(edge.leaf.get()) : wanted.nodes.at(edge.node.get()));
    TANDEM_CHECK(result.back().defined() || options.allow_unused, "grad: input ", i, " of shape ", inputs[i].shape(),
                 " was not used to compute the outputs (.allow_unused = true allows that)");
  }
  return result;
}

void after_backward(std::function<void()> callback) {
  TANDEM_CHECK(running, "after_backward: no backward pass is running on this thread");
  TANDEM_CHECK(callback, "after_backward: the callback is an empty function");
  running->add_callback(std::move(callback));
}

void autograd::extend_backward(const Tensor& root, Array gradient) {
  TANDEM_CHECK(running, "extend_backward: no backward pass is running on this thread");
  running->extend(edge_to(root), std::move(gradient));
}

Array autograd::gradient_place(std::size_t input) { return running ? running->place(input) : Array(); }
Array autograd::take_gradient(std::size_t input) { return running ? running->take(input) : Array(); }

bool backward_reaches(const Tensor& leaf) {
  TANDEM_CHECK(running, "backward_reaches: no backward pass is running on this thread");
  return running->reaches(leaf.state().get());
}

}  // namespace tandem
