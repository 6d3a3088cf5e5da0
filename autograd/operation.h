// How to write a differentiable operation: a function computes the value, and a closure computes the gradients of the
// inputs.
//
//   Tensor square(const Tensor& x) {
//     const Saved in("square", x.value());
//     return record("square", {x}, ops::zip(functors::Mul{}, x.value(), x.value()),
//                   [in](const Array& grad, Needs) -> Gradients {
//                     return {ops::zip(functors::Mul{}, grad, ops::map(functors::Affine{2, 0}, in))};
//                   });
//   }
//
// Closures hold Arrays, never Tensors, so a graph can't keep itself alive. gradcheck (autograd/gradcheck.h) checks
// whether the value and the closure agree.
#pragma once

#include <tandem/autograd/tensor.h>

#include <span>

namespace tandem::autograd {

// The inputs that need a gradient: needs[i] is true if input i does. A closure may omit the other gradients.
class Needs {
 public:
  bool operator[](int input) const { return bits_ >> bit(input) & 1u; }
  void set(int input) { bits_ |= 1u << bit(input); }
  bool any() const { return bits_ != 0; }

  // True if this is the last run of the closure, because the graph is not retained. The closure may then overwrite
  // memory that no other object holds.
  bool is_last_run() const { return last_run_; }
  void set_last_run(bool last_run) { last_run_ = last_run; }

 private:
  // Inputs from number 31 on share one bit: if one of them is needed, all are.
  static int bit(int input) { return input < 31 ? input : 31; }

  std::uint32_t bits_ = 0;
  bool last_run_ = false;
};

// One gradient for each input, in the shape of that input. A gradient that is not needed, or is zero, may be undefined.
using Gradients = std::vector<Array>;
using Backward = std::function<Gradients(const Array& grad_output, Needs needs)>;

// Returns whether no other Array refers to the memory of `array`: no Tensor, no closure and no view. If so, the memory
// may be overwritten.
inline bool is_unshared(const Array& array) { return array.storage().use_count() == 1; }

// A result that is cheap to compute from Arrays that the graph holds anyway. The graph then need not store the result
// between forward and backward: the first closure that needs the result recomputes it.
class Recomputed {
 public:
  // `version` is the version of the result's storage. If that version changes, the result was modified in place, and
  // this object no longer represents it.
  Recomputed(std::function<Array()> compute, std::uint64_t version) : compute_(std::move(compute)), version_(version) {}
  const Array& get() {
    if (compute_) {
      array_ = compute_();
      compute_ = nullptr;  // frees the Arrays that it holds
    }
    return array_;
  }
  bool stands_for(const Array& array) const { return array.storage()->version() == version_; }

 private:
  std::function<Array()> compute_;
  Array array_;
  std::uint64_t version_;
};

// An Array that the backward closure will need. If an operation has changed the Array in place, get() throws an Error
// that names both operations. Without this check the gradient would be wrong.
class Saved {
 public:
  Saved() = default;
  Saved(const char* operation, Array array) : operation_(operation), array_(std::move(array)) {
    TANDEM_CHECK(array_.defined(), operation, ": an Array to save for backward is undefined");
    version_ = array_.storage()->version();
  }
  // Stores x's Recomputed instead of its memory, if x has one.
  Saved(const char* operation, const Tensor& x);
  explicit Saved(std::shared_ptr<Recomputed> recomputed) : recomputed_(std::move(recomputed)) {}
  const Array& get() const {
    if (recomputed_) return recomputed_->get();
    check_unchanged();
    return array_;
  }
  // For a closure that does not need the Array's contents, or gets them elsewhere.
  void check_unchanged() const;
  bool is_set() const { return recomputed_ || array_.defined(); }
  operator const Array&() const { return get(); }  // NOLINT: meant to be used like the Array
  bool is_unshared() const { return autograd::is_unshared(array_); }

 private:
  const char* operation_ = "";
  Array array_;
  std::uint64_t version_ = 0;
  std::shared_ptr<Recomputed> recomputed_;
};

// Returns the value of an optional input, or an undefined Array for an undefined Tensor.
inline Array value_of(const Tensor& x) { return x.defined() ? x.value() : Array(); }

// Makes the result of an operation from `value`. If gradients are enabled and an input needs one, the result gets
// `backward` as its history.
Tensor record(const char* operation, std::span<const Tensor> inputs, Array value, Backward backward);
inline Tensor record(const char* operation, std::initializer_list<Tensor> inputs, Array value, Backward backward) {
  return record(operation, std::span(inputs.begin(), inputs.size()), std::move(value), std::move(backward));
}

// The same for an operation with one input: back(g) computes the gradient of x from the gradient g of the result.
template <class F>
Tensor record_unary(const char* operation, const Tensor& x, Array value, F back) {
  return record(operation, {x}, std::move(value),
                [back = std::move(back)](const Array& grad, Needs) -> Gradients { return {back(grad)}; });
}

// An operation that overwrites its first input:
//
//   void scale_(Tensor& x, double factor) {
//     check_in_place("scale_", {x});
//     ops::scale_(x.value(), factor);
//     record_in_place("scale_", {x}, [factor](const Array& grad, Needs) -> Gradients { ... });
//   }
//
// check_in_place() throws an Error if gradients are recorded and the first input is a leaf that requires a gradient. It
// also throws an Error if other Tensors of the graph share memory with the first input (one is a view of the other),
// because their history would miss the change.
void check_in_place(const char* operation, std::initializer_list<Tensor> inputs);
void record_in_place(const char* operation, std::initializer_list<Tensor> inputs, Backward backward);

}  // namespace tandem::autograd
