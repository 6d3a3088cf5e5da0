// Tensor: an Array that remembers how it was made, so that gradients can flow back through it.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/base/temporarily.h>

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
  Array gradient = {};        // d(objective) / d(this); default: 1, for a Tensor of one element
  bool retain_graph = false;  // keep the saved values, so that another backward() through the same graph is possible
};

// A Tensor is a handle: copies refer to the same value, gradient and history. A *leaf* is a Tensor that the user made,
// such as a parameter or an input. The gradient of a leaf accumulates in grad(). Only leaves that require a gradient
// have one. One thread at a time may use a graph. Different threads may build and differentiate different graphs. Two
// backward passes that come to one leaf at once are an Error.
//
// A member of a module that add_parameter() or add_buffer() has given it cannot be made to refer to something else: the
// module would go on saving and moving the old value. Assigning another Tensor to such a member is an Error;
// Module::tie shares a parameter.
class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor& other) : state_(other.state_) {}
  Tensor(Tensor&& other) noexcept : state_(std::move(other.state_)), is_member_(other.is_member_) {}
  Tensor& operator=(const Tensor& other) & { return *this = Tensor(other); }
  Tensor& operator=(Tensor&& other) & {
    if (is_member_ && !other.is_member_ && state_ && state_ != other.state_) fail_reassigned();
    is_member_ = is_member_ || other.is_member_;
    state_ = std::move(other.state_);
    return *this;
  }
  // x[0] = y would change the handle that x[0] gives, and not one number of x.
  template <class T>
  void operator=(const T&) && {
    static_assert(sizeof(T) == 0,
                  "this assignment would write no number: for x[0] = y write "
                  "x[0].value().copy_from(y.value()), or copy_(x[0], y), which has a gradient");
  }
  ~Tensor() = default;
  Tensor(Array value, bool requires_grad = false);  // NOLINT: an Array is a Tensor without history

  bool defined() const { return state_ != nullptr; }
  const Array& value() const;
  const Shape& shape() const { return value().shape(); }
  std::int64_t dim(std::int64_t i) const { return value().dim(i); }
  std::int64_t numel() const { return value().numel(); }
  DType dtype() const { return value().dtype(); }
  Device device() const { return value().device(); }
  double item() const { return value().item(); }
  // Part `i` along the first dimension, as a view: select(x, 0, i). A negative i counts from the end.
  Tensor operator[](std::int64_t i) const;

  bool requires_grad() const;
  void set_requires_grad(bool requires_grad);  // leaves only
  bool is_leaf() const;

  // The sum of the gradients of the backward passes since zero_grad(). Undefined when there was none. Only leaves keep
  // gradients, and results for which retain_grad() was called: an Error for other results. The Array shows the gradient
  // in its place, and is valid until the next backward pass that comes to this Tensor: to read it after that is an
  // Error. grad().clone() stays.
  Array grad() const;
  // From now on this result of an operation keeps its gradient, as a leaf does.
  void retain_grad() const;
  // Forgets the gradient and keeps its memory: the next backward pass writes instead of adding.
  void zero_grad();
  // Replaces the gradient. An undefined Array removes it.
  void set_grad(Array grad);
  // From now on the gradient accumulates in `buffer`, which has the shape, dtype and device of this Tensor and may be a
  // view of a communication bucket. A gradient that exists moves into the buffer.
  void set_grad_buffer(Array buffer);
  bool has_grad_buffer() const;
  void release_grad_buffer();  // the next gradients have memory of their own
  // Makes this leaf hold `value`, which has the same shape, dtype and device. Arrays of the value from before keep the
  // old numbers.
  void set_value(Array value);
  // Moves the value of this leaf into `memory`, which has the same shape, dtype and device, and the same strides where
  // the value is dense. Arrays that show the value, such as those of a state dict, show it there; only a value that is
  // a part of a larger array leaves them behind. An optimizer moves parameters into its arena in this way.
  void move_into(Array memory);
  // Brings the value and the gradient of this leaf to `device`. All handles of the leaf see them there. Error when the
  // gradient has a buffer (set_grad_buffer), because the buffer would stay behind.
  void move_to(Device device);
  // Converts the value and the gradient of this leaf to `dtype`. All handles of the leaf see the new dtype. Error when
  // the gradient has a buffer, or when a leaf that requires a gradient would get a dtype that is not floating.
  void move_to(DType dtype);

  // Runs the chain rule from this Tensor to every leaf that requires a gradient. Frees the graph, unless
  // options.retain_graph is true.
  void backward(const BackwardOptions& options = {}) const;
  // A Tensor with the same value, in the same memory, without history.
  Tensor detach() const;
  // A Tensor with this value on `device`. Its gradient comes back to the device of this Tensor. Gives this Tensor
  // itself when the value is on `device` already.
  Tensor to(Device device) const;

  // `hook` runs once per backward pass in which this leaf takes part, as soon as its gradient is final.
  HookHandle on_grad_ready(std::function<void()> hook) const;

  bool same_as(const Tensor& other) const { return state_ == other.state_; }

  // For operations (autograd/operation.h) and the engine.
  explicit Tensor(std::shared_ptr<autograd::TensorState> state) : state_(std::move(state)) {}
  const std::shared_ptr<autograd::TensorState>& state() const { return state_; }

  // For modules: this handle is a member of a module. And: it refers to what `other` refers to, member or not.
  void set_member() { is_member_ = true; }
  void refer_to(const Tensor& other) { state_ = other.state_; }

 private:
  [[noreturn]] static void fail_reassigned();

  std::shared_ptr<autograd::TensorState> state_;
  bool is_member_ = false;  // goes with the handle when the handle moves, and not to its copies
};

// A parameter with its dotted path from the root of its model: "layer1.0.weight".
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

namespace autograd {

struct GradOptions {
  std::vector<Array> gradients = {};  // d(objective) / d(output), one for each output; default: 1, as for backward()
  bool retain_graph = false;
  bool allow_unused = false;  // whether an input may have no part in the outputs; its gradient is undefined then
};
// The gradients of the sum of `outputs` with respect to `inputs`, which may be leaves or results on the way. The grad()
// of no Tensor changes, and no hook runs. Error when an input requires no gradient, or has no part in the outputs.
// Gradients have no history: gradients of gradients are not supported.
std::vector<Array> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                        const GradOptions& options = {});

}  // namespace autograd

// Runs `callback` on this thread at the end of the backward pass that is running, before backward() returns. An
// exception of the callback leaves backward(). Callbacks run in the order of registration. Error when no backward pass
// is running.
void after_backward(std::function<void()> callback);

// Returns whether the backward pass that is running on this thread reaches `leaf`. If so, the hooks of the leaf will
// run or have run. Error when no backward pass is running.
bool backward_reaches(const Tensor& leaf);

bool grad_enabled();

// While a NoGrad lives, operations on this thread record no history.
class NoGrad {
 public:
  [[nodiscard]] NoGrad();

 private:
  Temporarily<bool> mode_;
};

// While an EnableGrad lives, operations on this thread record their history, also within a NoGrad.
class EnableGrad {
 public:
  [[nodiscard]] EnableGrad();

 private:
  Temporarily<bool> mode_;
};

// Prints the value as an Array does, and the origin of the Tensor: "requires_grad" for a leaf, "grad_fn=relu" for a
// result.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace tandem
