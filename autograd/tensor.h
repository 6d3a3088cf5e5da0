// Tensor: an Array that remembers how it was made, so that gradients can flow back through it.
#pragma once

#include <tandem/core/array/array.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tandem {

namespace autograd {
struct GraphNode;
struct TensorState;
}  // namespace autograd

// Removes a hook when asked to. Destroying it leaves the hook in place.
class HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  void remove() {
    if (remove_) std::exchange(remove_, nullptr)();
  }

 private:
  std::function<void()> remove_;
};

struct BackwardOptions {
  Array gradient = {};        // d(objective) / d(this); default: 1, and this must have one element
  bool retain_graph = false;  // keep what backward needs, for another backward through the same graph
};

// A handle: copies refer to the same value, gradient and history. A *leaf* was made by the user (a parameter, an
// input); its gradient accumulates in grad(). Only leaves that require a gradient have one.
// One thread at a time may use a graph; different threads may build and differentiate different graphs.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Array value, bool requires_grad = false);  // NOLINT: an Array is a Tensor without history

  bool defined() const { return state_ != nullptr; }
  const Array& value() const;
  const Shape& shape() const { return value().shape(); }
  std::int64_t dim(std::int64_t i) const { return value().dim(i); }
  std::int64_t numel() const { return value().numel(); }
  DType dtype() const { return value().dtype(); }
  Device device() const { return value().device(); }
  double item() const { return value().item(); }

  bool requires_grad() const;
  void set_requires_grad(bool requires_grad);  // leaves only
  bool is_leaf() const;

  // The gradient of the last backward passes since zero_grad(); undefined Array when there is none.
  Array grad() const;
  // Forgets the gradient and keeps its memory: the next backward pass writes instead of adding.
  void zero_grad();
  // Replaces the gradient (undefined: none).
  void set_grad(Array grad);
  // From now on the gradient accumulates in `buffer` (same shape, dtype and device; a view of a communication bucket).
  // A gradient that exists moves there.
  void set_grad_buffer(Array buffer);
  // Makes this leaf hold `value` (same shape, dtype and device): how an optimizer moves parameters into its arena.
  void set_value(Array value);
  // Brings this leaf's value and gradient to `device`; every handle sees them there. Error when the gradient has a
  // buffer (set_grad_buffer), which would stay behind.
  void move_to(Device device);
  // The same for its dtype.
  void move_to(DType dtype);

  // Runs the chain rule from here to every leaf that requires a gradient. Frees the graph unless told otherwise.
  void backward(const BackwardOptions& options = {}) const;
  // The same value without history, sharing memory.
  Tensor detach() const;
  // The value on `device`, differentiable: the gradient comes back to this tensor's device. This tensor itself where it
  // is there already.
  Tensor to(Device device) const;

  // `hook` runs once per backward pass in which this leaf takes part, as soon as its gradient is final.
  HookHandle on_grad_ready(std::function<void()> hook) const;

  bool same_as(const Tensor& other) const { return state_ == other.state_; }

  // For operations (autograd/operation.h) and the engine.
  explicit Tensor(std::shared_ptr<autograd::TensorState> state) : state_(std::move(state)) {}
  const std::shared_ptr<autograd::TensorState>& state() const { return state_; }

 private:
  std::shared_ptr<autograd::TensorState> state_;
};

// A parameter with its dotted path from the root of its model: "layer1.0.weight".
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// Runs `callback` on this thread when the backward pass that is running ends (before backward() returns). An exception
// from it leaves backward(). Error when no backward pass is running. Callbacks run in the order of registration.
void after_backward(std::function<void()> callback);

// Whether the backward pass that is running on this thread comes to `leaf`, and so will run or has run its hooks. Error
// when no backward pass is running.
bool backward_reaches(const Tensor& leaf);

bool grad_enabled();

// While one lives, operations on this thread record no history.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

// While one lives, operations on this thread record their history, also within a NoGrad.
class EnableGrad {
 public:
  EnableGrad();
  ~EnableGrad();
  EnableGrad(const EnableGrad&) = delete;
  EnableGrad& operator=(const EnableGrad&) = delete;

 private:
  bool before_;
};

// The value as an Array prints, and where it came from: "requires_grad" for a leaf, "grad_fn=relu" for a result.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace tandem
