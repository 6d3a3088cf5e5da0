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

// Removes a hook when remove() is called. Destroying the handle leaves the hook in place.
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
  Array gradient = {};        // d(objective) / d(this); default: 1, for a Tensor with one element
  bool retain_graph = false;  // keeps the saved values, which allows another backward() through the same graph
};

// A Tensor is a handle: copies refer to the same value, gradient and history. A *leaf* is a Tensor that the user
// created, such as a parameter or an input. The gradient of a leaf accumulates in grad(). Only leaves that require a
// gradient have one. Only one thread at a time may use a graph. Different threads may build and differentiate different
// graphs. If two backward passes reach the same leaf at the same time, an Error is thrown.
//
// A module's member that add_parameter() or add_buffer() returned can't be replaced by another Tensor, because the
// module would keep saving and moving the old value. Assigning another Tensor to such a member throws an Error.
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
  // x[0] = y would change only the handle that x[0] returns, and no number of x.
  template <class T>
  void operator=(const T&) && {
    static_assert(sizeof(T) == 0,
                  "this assignment would change no number of x: for x[0] = y write "
                  "x[0].value().copy_from(y.value()), or copy_(x[0], y), which records a gradient");
  }
  ~Tensor() = default;
  Tensor(Array value, bool requires_grad = false);  // NOLINT: an Array is a Tensor without history

  bool defined() const { return state_ != nullptr; }
  const Array& value() const&;
  Array value() && { return std::as_const(*this).value(); }  // a temporary returns no reference: it would dangle
  const Shape& shape() const& { return value().shape(); }
  Shape shape() && { return value().shape(); }
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

  // The sum of the gradients of all backward passes since zero_grad(), or undefined if there was none. Leaves store
  // gradients, and so do results after retain_grad(); for other results grad() throws an Error. The Array shows the
  // gradient in place, and is valid until the next backward pass that reaches this Tensor. Reading it later throws an
  // Error. To keep the numbers, store grad().clone().
  Array grad() const;
  // From now on, this result of an operation stores its gradient, like a leaf.
  void retain_grad() const;
  // Clears the gradient but keeps its memory: the next backward pass overwrites it instead of adding.
  void zero_grad();
  // Replaces the gradient. An undefined Array removes it.
  void set_grad(Array grad);
  // From now on, the gradient accumulates in `buffer`, which has the shape, dtype and device of this Tensor and may be
  // a view of a communication bucket. An existing gradient moves into the buffer.
  void set_grad_buffer(Array buffer);
  bool has_grad_buffer() const;
  void release_grad_buffer();  // later gradients have their own memory
  // Makes this leaf hold `value`, which has the same shape, dtype and device. Arrays of the previous value keep the old
  // numbers.
  void set_value(Array value);
  // Moves the value of this leaf into `memory`, which has the same shape, dtype and device, and the same strides if the
  // value is dense. Arrays that share the value's memory, such as those of a state dict, move with it, unless the value
  // is part of a larger array. Optimizers use this function to move parameters into their arenas.
  void move_into(Array memory);
  // Moves the value and gradient of this leaf to `device`. All handles of the leaf see the change. Throws an Error if
  // the gradient has a buffer (set_grad_buffer), because the buffer would stay behind.
  void move_to(Device device);
  // Converts the value and gradient of this leaf to `dtype`. All handles of the leaf see the change. Throws an Error if
  // the gradient has a buffer, or if a leaf that requires a gradient would get a non-floating dtype.
  void move_to(DType dtype);

  // Runs the chain rule from this Tensor to every leaf that requires a gradient. Frees the graph unless
  // options.retain_graph is true.
  void backward(const BackwardOptions& options = {}) const;
  // A Tensor with the same value, in the same memory, without history.
  Tensor detach() const;
  // Returns a Tensor with this value on `device`. Its gradient flows back to this Tensor's device. Returns this Tensor
  // itself if the value is already on `device`.
  Tensor to(Device device) const;

  // `hook` runs once in each backward() that reaches this leaf, as soon as the leaf's gradient is final, on the thread
  // that called backward(). The gradient may be undefined, which means zero. backward() rethrows an exception of the
  // hook.
  HookHandle on_grad_ready(std::function<void()> hook) const;

  bool same_as(const Tensor& other) const { return state_ == other.state_; }

  // For operations (autograd/operation.h) and the engine.
  explicit Tensor(std::shared_ptr<autograd::TensorState> state) : state_(std::move(state)) {}
  const std::shared_ptr<autograd::TensorState>& state() const { return state_; }

  // For modules: set_member() marks this handle as a module's member. refer_to() makes it refer to the target of
  // `other`, even if it is a member.
  void set_member() { is_member_ = true; }
  void refer_to(const Tensor& other) { state_ = other.state_; }

 private:
  [[noreturn]] static void fail_reassigned();

  std::shared_ptr<autograd::TensorState> state_;
  bool is_member_ = false;  // moves with the handle, but is not copied
};

// A parameter with its dotted path from the root of its model: "layer1.0.weight".
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

namespace autograd {

struct GradOptions {
  std::vector<Array> gradients = {};  // d(objective) / d(output), one per output; default: 1, as in backward()
  bool retain_graph = false;
  bool allow_unused = false;  // allows inputs that the outputs don't depend on; their gradients are undefined
};
// Returns the gradients of the sum of `outputs` with respect to `inputs`, which may be leaves or intermediate results.
// No Tensor's grad() changes, and no hook runs. Throws an Error if an input requires no gradient, or if the outputs
// don't depend on it. Gradients have no history: gradients of gradients are not supported.
std::vector<Array> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                        const GradOptions& options = {});

}  // namespace autograd

// Runs `callback` on this thread at the end of the running backward pass, before backward() returns. backward()
// rethrows an exception of the callback. Callbacks run in registration order. Throws an Error if no backward pass is
// running.
void after_backward(std::function<void()> callback);

// Returns whether the backward pass that is running on this thread reaches `leaf`. If so, the hooks of the leaf will
// run or have run, except in autograd::grad(). Throws an Error if no backward pass is running.
bool backward_reaches(const Tensor& leaf);

bool grad_enabled();

// While a NoGrad lives, operations on this thread record no history.
class NoGrad {
 public:
  [[nodiscard]] NoGrad();

 private:
  Temporarily<bool> mode_;
};

// While an EnableGrad lives, operations on this thread record their history, even within a NoGrad.
class EnableGrad {
 public:
  [[nodiscard]] EnableGrad();

 private:
  Temporarily<bool> mode_;
};

// Prints the value like an Array, and the origin of the Tensor: "requires_grad" for a leaf, "grad_fn=relu" for a
// result.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace tandem
