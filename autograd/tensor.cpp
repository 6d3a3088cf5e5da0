#include <tandem/autograd/anomaly.h>
#include <tandem/autograd/graph.h>
#include <tandem/core/array/memory_order.h>
#include <tandem/core/array/print.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops.h>

#include <sstream>
#include <string_view>

namespace tandem {

using autograd::TensorState;

namespace {

thread_local bool grad_is_enabled = true;

TensorState& checked(const std::shared_ptr<TensorState>& state) {
  TANDEM_CHECK(state, "this Tensor is undefined: assign a value to it first");
  return *state;
}

}  // namespace

bool grad_enabled() { return grad_is_enabled; }
NoGrad::NoGrad() : mode_(grad_is_enabled, false) {}
EnableGrad::EnableGrad() : mode_(grad_is_enabled, true) {}

Tensor::Tensor(Array value, bool requires_grad) : state_(std::make_shared<TensorState>()) {
  state_->value = std::move(value);
  if (requires_grad) set_requires_grad(true);
}

void Tensor::fail_reassigned() {
  detail::fail(
      "this Tensor is a parameter or buffer of a module and can't be replaced by another Tensor: the module would "
      "keep using the old value. To share a parameter, call tie(parameter, other) in the module (nn/module.h). To "
      "change "
      "its numbers, call set_value()");
}

const Array& Tensor::value() const& { return checked(state_).value; }
bool Tensor::requires_grad() const { return checked(state_).requires_grad; }
bool Tensor::is_leaf() const { return checked(state_).node == nullptr; }

void Tensor::set_requires_grad(bool requires_grad) {
  TANDEM_CHECK(is_leaf(), "set_requires_grad: only a leaf can change this setting; use detach() to get a leaf");
  TANDEM_CHECK(!requires_grad || is_floating(dtype()), "only floating tensors can require a gradient, but this one is ",
               dtype());
  state_->requires_grad = requires_grad;
}

Array Tensor::grad() const {
  TANDEM_CHECK(is_leaf() || state_->node->retained.lock() == state_, "grad: this tensor is the result of ",
               state_->node->operation,
               ", and only leaves store gradients: call retain_grad() before backward(), or use autograd::grad()");
  return state_->has_grad ? state_->lend_grad() : Array();
}

void Tensor::retain_grad() const {
  TANDEM_CHECK(requires_grad(), "retain_grad: this tensor requires no gradient");
  if (!is_leaf()) state_->node->retained = state_;
}

void Tensor::zero_grad() { checked(state_).has_grad = false; }

void Tensor::set_grad(Array grad) {
  zero_grad();
  if (!grad.defined()) return;
  TANDEM_CHECK(grad.shape() == shape() && grad.device() == device(), "set_grad: the gradient has shape ", grad.shape(),
               " on ", grad.device(), ", but the tensor has shape ", shape(), " on ", device());
  state_->accumulate(std::move(grad));
}

bool Tensor::has_grad_buffer() const { return checked(state_).grad_is_fixed; }

void Tensor::set_grad_buffer(Array buffer) {
  TANDEM_CHECK(buffer.shape() == shape() && buffer.dtype() == dtype() && buffer.device() == device(),
               "set_grad_buffer: buffer is ", buffer.shape(), ' ', buffer.dtype(), " on ", buffer.device(),
               ", but the tensor is ", shape(), ' ', dtype(), " on ", device());
  if (state_->has_grad) buffer.copy_from(state_->grad);
  state_->grad = std::move(buffer);
  state_->grad_is_fixed = true;
}

void Tensor::release_grad_buffer() { checked(state_).grad_is_fixed = false; }

void Tensor::set_value(Array value) {
  TANDEM_CHECK(is_leaf(), "set_value: only a leaf can get another value");
  TANDEM_CHECK(value.shape() == shape() && value.dtype() == dtype() && value.device() == device(),
               "set_value: value is ", value.shape(), ' ', value.dtype(), " on ", value.device(),
               ", but the tensor is ", shape(), ' ', dtype(), " on ", device());
  state_->value = std::move(value);
}

void Tensor::move_into(Array memory) {
  const Array value = this->value();
  memory.copy_from(value);
  const auto is_whole = [](const Array& array) {
    return array.offset() == 0 && array.bytes() == array.storage()->bytes();
  };
  const bool fits = is_leaf() && value.dtype() == memory.dtype() && value.device() == memory.device() &&
                    value.shape() == memory.shape() && value.strides() == memory.strides();
  if (fits && is_whole(value) && is_whole(memory)) value.storage()->swap_memory(*memory.storage());
  else set_value(std::move(memory));
}

void Tensor::move_to(Device device) {
  TANDEM_CHECK(is_leaf(), "move_to: only a leaf can move; to() copies any tensor");
  if (device == this->device()) return;
  TANDEM_CHECK(!state_->grad_is_fixed, "a tensor whose gradient lies in a communication bucket can't move to ", device,
               ": move the model before you construct DistributedDataParallel");
  // Convolution kernels need filters in a specific memory order: channels last on a GPU, row-major on the CPU. Changing
  // the order here saves each step the conversion.
  const auto moved = [&](const Array& a) {
    const Array there = a.to(device);
    if (there.ndim() != 4) return there;
    return device.is_cpu() ? there.contiguous() : there.channels_last();
  };
  state_->value = moved(state_->value);
  state_->grad = state_->has_grad ? moved(state_->grad) : Array();
}

void Tensor::move_to(DType dtype) {
  TANDEM_CHECK(is_leaf(), "move_to: only a leaf can change its dtype; cast() copies any tensor");
  if (dtype == this->dtype()) return;
  TANDEM_CHECK(is_floating(dtype) || !requires_grad(), "move_to: a tensor that requires a gradient can't become ",
               dtype);
  TANDEM_CHECK(!state_->grad_is_fixed, "a tensor whose gradient lies in a communication bucket can't become ", dtype,
               ": convert the model before you construct DistributedDataParallel");
  state_->value = state_->value.to(dtype);
  state_->grad = state_->has_grad ? state_->grad.to(dtype) : Array();
}

Tensor Tensor::detach() const { return Tensor(value()); }

Tensor Tensor::to(Device device) const {
  const Device here = this->device();
  if (device == here) return *this;
  return autograd::record(
      "to", {*this}, value().to(device),
      [here](const Array& grad, autograd::Needs) -> autograd::Gradients { return {grad.to(here)}; });
}

HookHandle Tensor::on_grad_ready(std::function<void()> hook) const {
  TANDEM_CHECK(is_leaf() && requires_grad(), "on_grad_ready: only a leaf that requires a gradient can have this hook");
  TANDEM_CHECK(hook, "on_grad_ready: the hook is an empty function");
  auto& hooks = state_->grad_ready_hooks;
  hooks.push_back(std::move(hook));
  return HookHandle([weak = std::weak_ptr(state_), at = std::prev(hooks.end())] {
    if (const auto state = weak.lock()) state->grad_ready_hooks.erase(at);
  });
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  if (!tensor.defined()) return out << "Tensor(undefined)";
  out << "Tensor" << tensor.shape() << ' ' << tensor.dtype() << ' ' << tensor.device();
  if (!tensor.is_leaf()) out << " grad_fn=" << tensor.state()->node->operation;
  else if (tensor.requires_grad()) out << " requires_grad";
  const std::string values = values_to_string(tensor.value());
  return out << (values[0] == '\n' ? "" : " ") << values;
}

namespace autograd {

void TensorState::accumulate(Array gradient) {
  if (has_grad) {
    ops::add_(grad, gradient);
  } else if (grad_is_fixed) {
    const bool is_there = gradient.raw() == grad.raw() && gradient.strides() == grad.strides();
    if (is_there) grad.storage()->written_by("backward");  // the operation wrote it there (gradient_place.h)
    else grad.copy_from(gradient);
  } else {
    // The gradient gets the memory order of the value, or is row-major if the value is not dense. The incoming array is
    // kept if no other Array refers to its memory and it already has that order. The gradient of a sum, for example,
    // may not have that order, because it can be one repeated number.
    const MemoryOrder order(value);
    const bool ours = is_unshared(gradient) && gradient.dtype() == value.dtype() && order.fits(gradient);
    if (ours) {
      grad = std::move(gradient);
    } else {
      grad = order.empty(value.shape(), value.dtype(), value.device());
      grad.copy_from(gradient);
    }
  }
  has_grad = true;
}

Array TensorState::lend_grad() {
  const std::shared_ptr<Storage>& memory = grad.storage();
  if (!loan_ || loan_->data() != memory->data() || loan_->bytes() != memory->bytes())
    loan_ = storage_slice(memory, 0, memory->bytes());
  return {loan_, grad.shape(), grad.strides(), grad.offset(), grad.dtype()};
}

void TensorState::end_loan() {
  if (loan_.use_count() <= 1) return;  // the program holds no copy of the Array
  loan_->revoke(
      "this Array was a gradient, and a later backward pass has replaced it: to keep the "
      "earlier numbers, store grad().clone()");
  loan_ = nullptr;
}

// Recursion would overflow the stack on a long chain of nodes. So nodes that lose their last owner wait in a list.
GraphNode::~GraphNode() {
  thread_local std::vector<std::shared_ptr<GraphNode>>* waiting = nullptr;
  if (waiting) {
    for (auto& edge : edges)
      if (edge.node) waiting->push_back(std::move(edge.node));
    return;
  }
  std::vector<std::shared_ptr<GraphNode>> mine;
  waiting = &mine;
  for (auto& edge : edges)
    if (edge.node) mine.push_back(std::move(edge.node));
  backward = nullptr;  // `backward` may own the same nodes and must not be the last to release them
  while (!mine.empty()) {
    const auto next = std::move(mine.back());
    mine.pop_back();
  }
  waiting = nullptr;
}

Saved::Saved(const char* operation, const Tensor& x) {
  const auto& node = x.state()->node;
  if (node && node->recomputed && node->recomputed->stands_for(x.value())) recomputed_ = node->recomputed;
  else *this = Saved(operation, x.value());
}

void Saved::check_unchanged() const {
  TANDEM_CHECK(array_.storage()->version() == version_, operation_, ": a value of shape ", array_.shape(),
               " that its backward pass needs was changed in place by ", array_.storage()->last_writer(),
               " after the forward pass; run backward() first, or change a clone()");
}

namespace {

Needs needs_of(std::span<const Tensor> inputs) {
  Needs needs;
  int i = 0;
  for (const Tensor& input : inputs) {
    if (grad_is_enabled && input.defined() && input.requires_grad()) needs.set(i);
    ++i;
  }
  return needs;
}

std::vector<Edge> edges_to(std::span<const Tensor> inputs) {
  std::vector<Edge> edges;
  edges.reserve(inputs.size());
  for (const Tensor& input : inputs) edges.push_back(input.defined() ? edge_to(input) : Edge{});
  return edges;
}

thread_local std::uint64_t sequence_counter = 0;

}  // namespace

Edge edge_to(const Tensor& tensor) {
  if (!tensor.requires_grad()) return {};
  return tensor.is_leaf() ? Edge{nullptr, tensor.state()} : Edge{tensor.state()->node, nullptr};
}

std::uint64_t next_sequence() { return sequence_counter; }

std::shared_ptr<GraphNode> make_node(const char* operation, std::vector<Edge> edges, Needs needs, const Array& value,
                                     Backward backward) {
  auto node = std::make_shared<GraphNode>();
  node->operation = operation;
  node->sequence = sequence_counter++;
  node->edges = std::move(edges);
  node->backward = std::move(backward);
  node->needs = needs;
  node->shape = value.shape();
  node->dtype = value.dtype();
  node->device = value.device();
  if (searches_anomalies()) node->caller = std::make_unique<std::string>(detail::module_text());
  if (const auto* scope = Scope::innermost(); scope && scope->takes_notes()) node->module_path = Scope::module_path();
  return node;
}

namespace {

void check_value(const char* operation, std::span<const Tensor> inputs, const Array& value) {
  if (!searches_anomalies()) return;
  const std::string found = anomaly_in(value);
  if (found.empty()) return;
  std::string of_input;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() && inputs[i].state()->value.storage() != value.storage())
      if (const std::string before = anomaly_in(inputs[i].value()); !before.empty())
        of_input += "; in its input " + std::to_string(i) + ", " + before;
  detail::fail("DetectAnomaly: in the result of ", operation, ", ", found, of_input);
}

// Adds the shapes of an operation to the innermost scope, if that scope belongs to the operation.
void note_shapes(const char* operation, std::span<const Tensor> inputs, const Array& value) {
  Scope* const scope = Scope::innermost();
  if (!scope || !scope->takes_notes() || scope->has_notes() || std::string_view(scope->name()) != operation) return;
  std::ostringstream shapes, output;
  for (const Tensor& input : inputs)
    if (input.defined()) shapes << (shapes.tellp() > 0 ? ", " : "") << input.value().shape();
  output << value.shape();
  scope->note("inputs", shapes.str());
  scope->note("output", output.str());
}

}  // namespace

Tensor record(const char* operation, std::span<const Tensor> inputs, Array value, Backward backward) {
  check_value(operation, inputs, value);
  note_shapes(operation, inputs, value);
  const Needs needs = needs_of(inputs);
  auto state = std::make_shared<TensorState>();
  if (needs.any()) {
    state->node = make_node(operation, edges_to(inputs), needs, value, std::move(backward));
    state->requires_grad = true;
    for (const Tensor& input : inputs)
      if (input.defined() && input.value().storage() == value.storage())
        state->shares_memory = input.state()->shares_memory = true;
  }
  state->value = std::move(value);
  return Tensor(std::move(state));
}

void check_in_place(const char* operation, std::initializer_list<Tensor> inputs) {
  if (!needs_of(inputs).any()) return;
  const Tensor& target = *inputs.begin();
  TANDEM_CHECK(!target.is_leaf() || !target.requires_grad(), operation, ": a leaf that requires a gradient (shape ",
               target.shape(), ") can't be changed in place while gradients are recorded; do it under NoGrad");
  TANDEM_CHECK(
      !target.state()->shares_memory, operation, ": this tensor of shape ", target.shape(),
      " shares its memory with another tensor of the graph (one is a view of the other), whose history would miss a "
      "change in place; use the form that returns a new tensor");
}

void record_in_place(const char* operation, std::initializer_list<Tensor> inputs, Backward backward) {
  check_value(operation, std::span(inputs.begin(), inputs.size()), inputs.begin()->value());
  const Needs needs = needs_of(inputs);
  if (!needs.any()) return;
  TensorState& target = *inputs.begin()->state();
  target.node = make_node(operation, edges_to(inputs), needs, target.value, std::move(backward));
  target.requires_grad = true;
}

}  // namespace autograd
}  // namespace tandem
