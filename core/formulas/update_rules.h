// The rules by which optimizers update numbers: one struct for each rule, compiled for every device.
//
// A rule works on segments. A segment has numbers to update (`parameter`), numbers to read (`gradient`), and the state
// of the rule: one array for each name in `state_names`. The names are PyTorch's if PyTorch stores the same state.
//
// A rule is called for each number. If a rule has at(count, is_first), that function computes values that are equal for
// many numbers of a segment, on the device that updates them, and the object that it returns is called for each number.
// `count` is the number that UpdateSegment::count points to. If the rule's `counts` is true, that number is first
// incremented by one.
//
// To add a rule to the library, write the struct, add it to the variant below, and write a class for it in optim/. A
// program's custom rule is wrapped in an OwnRule.
#pragma once

#include <tandem/core/base/half.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

namespace tandem {

// One parameter that an optimizer updates. All arrays are f32, dense, and on one device.
struct UpdateSegment {
  float* parameter;
  const float* gradient;
  float* state[3];  // one for each of the rule's `state_names`
  // The number of updates so far, for a rule that counts them. The update itself increments it, so a recorded graph
  // counts too. ClipNorm reads the norm of the gradients from here.
  float* count;
  std::int64_t numel;
  bool is_first;  // true until an update has written the state
  // A number on the segment's device, or null. If it is infinite or NaN, the segment is not updated.
  const float* while_finite = nullptr;
};

namespace rules {

// Stochastic gradient descent, without and with momentum. PyTorch's kernels round a product and a sum once, and each
// std::fma does the same. If the compiler decided, the results would depend on its options.
struct Sgd {
  static constexpr std::array<const char*, 0> state_names{};
  static constexpr bool counts = false;
  float lr, decay;

  TANDEM_HOST_DEVICE void operator()(float& parameter, float gradient) const {
    parameter = std::fma(-lr, std::fma(decay, parameter, gradient), parameter);
  }
};

// Sutskever et al., "On the importance of initialization and momentum in deep learning", ICML 2013, in PyTorch's form:
// the velocity is a sum of gradients, and the learning rate multiplies the velocity when it is applied.
struct SgdMomentum {
  static constexpr std::array<const char*, 1> state_names{"momentum"};
  static constexpr bool counts = false;
  float lr, decay, momentum, keep;
  bool nesterov;
  bool is_first;  // true if there is no velocity yet; at() sets it

  TANDEM_HOST_DEVICE SgdMomentum at(float, bool first) const { return {lr, decay, momentum, keep, nesterov, first}; }
  TANDEM_HOST_DEVICE void operator()(float& parameter, float gradient, float& velocity) const {
    const float update = std::fma(decay, parameter, gradient);
    velocity = is_first ? update : std::fma(keep, update, momentum * velocity);
    parameter = std::fma(-lr, nesterov ? std::fma(momentum, velocity, update) : velocity, parameter);
  }
};

// Returns from + weight * (to - from). As in torch.lerp, the calculation starts from the nearer end.
TANDEM_HOST_DEVICE inline float lerp(float from, float to, float weight) {
  return weight < 0.5f ? from + weight * (to - from) : to - (to - from) * (1 - weight);
}

// Kingma and Ba, "Adam", ICLR 2015, arXiv:1412.6980; Loshchilov and Hutter, "Decoupled Weight Decay Regularization",
// ICLR 2019, arXiv:1711.05101; Reddi et al., "On the Convergence of Adam and Beyond", ICLR 2018 (AMSGrad).
struct AdamNumbers {
  double lr, beta1, beta2, eps;
  float decay;   // decay * parameter is added to the gradient
  float shrink;  // the parameter is first multiplied by this factor: decoupled weight decay
  float sign;    // multiplies the gradient: -1 if the objective is maximised, otherwise 1
};

template <bool amsgrad>
struct Adam {
  static constexpr auto state_names = [] {
    if constexpr (amsgrad) return std::array{"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
    else return std::array{"exp_avg", "exp_avg_sq"};
  }();
  static constexpr bool counts = true;
  AdamNumbers numbers;

  struct Update {
    float decay, shrink, sign, weight1, beta2, weight2, step_size, correction, eps;
    TANDEM_HOST_DEVICE float average(float& parameter, float& gradient, float& exp_avg, float& exp_avg_sq) const {
      parameter *= shrink;
      gradient = sign * gradient + decay * parameter;
      exp_avg = lerp(exp_avg, gradient, weight1);
      return exp_avg_sq = beta2 * exp_avg_sq + weight2 * gradient * gradient;
    }
    TANDEM_HOST_DEVICE void move(float& parameter, float exp_avg, float square) const {
      parameter -= step_size * exp_avg / (std::sqrt(square) / correction + eps);
    }
    TANDEM_HOST_DEVICE void operator()(float& parameter, float gradient, float& exp_avg, float& exp_avg_sq) const {
      // A separate statement, because the compiler chooses the order in which a call's arguments are evaluated.
      const float square = average(parameter, gradient, exp_avg, exp_avg_sq);
      move(parameter, exp_avg, square);
    }
    TANDEM_HOST_DEVICE void operator()(float& parameter, float gradient, float& exp_avg, float& exp_avg_sq,
                                       float& max_exp_avg_sq) const {
      const float square = average(parameter, gradient, exp_avg, exp_avg_sq);
      // Written so that a NaN is kept.
      max_exp_avg_sq = square <= max_exp_avg_sq ? max_exp_avg_sq : square;
      move(parameter, exp_avg, max_exp_avg_sq);
    }
  };
  TANDEM_HOST_DEVICE Update at(float count, bool) const {
    const auto& n = numbers;
    const double correction1 = 1 - std::pow(n.beta1, static_cast<double>(count));
    const double correction2 = 1 - std::pow(n.beta2, static_cast<double>(count));
    return {n.decay,
            n.shrink,
            n.sign,
            static_cast<float>(1 - n.beta1),
            static_cast<float>(n.beta2),
            static_cast<float>(1 - n.beta2),
            static_cast<float>(n.lr / correction1),
            static_cast<float>(std::sqrt(correction2)),
            static_cast<float>(n.eps)};
  }
};

// Tieleman and Hinton, lecture 6.5 of "Neural Networks for Machine Learning", 2012. For the centered form: Graves,
// "Generating Sequences With Recurrent Neural Networks", arXiv:1308.0850.
struct RmsPropNumbers {
  float lr, alpha, weight, eps, decay, momentum, sign;  // `weight` is 1 - alpha
};

template <bool centered, bool has_momentum>
struct RmsProp {
  static constexpr auto state_names = [] {
    if constexpr (centered && has_momentum) return std::array{"square_avg", "grad_avg", "momentum_buffer"};
    else if constexpr (centered) return std::array{"square_avg", "grad_avg"};
    else if constexpr (has_momentum) return std::array{"square_avg", "momentum_buffer"};
    else return std::array{"square_avg"};
  }();
  static constexpr bool counts = true;  // the rule does not use the count, but PyTorch's state contains it
  RmsPropNumbers numbers;

  template <class... More>
  TANDEM_HOST_DEVICE void operator()(float& parameter, float gradient, float& square_avg, More&... more) const {
    gradient = numbers.sign * gradient + numbers.decay * parameter;
    float square = square_avg = numbers.alpha * square_avg + numbers.weight * gradient * gradient;
    if constexpr (centered) square -= center(gradient, more...);
    // Rounding may make the difference negative.
    const float update = gradient / (std::sqrt(square < 0 ? 0 : square) + numbers.eps);
    if constexpr (has_momentum) parameter -= numbers.lr * velocity(update, more...);
    else parameter -= numbers.lr * update;
  }

 private:
  template <class... More>
  TANDEM_HOST_DEVICE float center(float gradient, float& grad_avg, More&...) const {
    grad_avg = lerp(grad_avg, gradient, numbers.weight);
    return grad_avg * grad_avg;
  }
  TANDEM_HOST_DEVICE float velocity(float update, float& buffer) const {
    return buffer = numbers.momentum * buffer + update;
  }
  TANDEM_HOST_DEVICE float velocity(float update, float&, float& buffer) const { return velocity(update, buffer); }
};

// Duchi, Hazan, Singer, "Adaptive Subgradient Methods", JMLR 12, 2011.
struct Adagrad {
  static constexpr std::array<const char*, 1> state_names{"sum"};
  static constexpr bool counts = true;
  double lr, lr_decay;
  float eps, decay, sign;

  struct Update {
    float lr, eps, decay, sign;
    TANDEM_HOST_DEVICE void operator()(float& parameter, float gradient, float& sum) const {
      gradient = sign * gradient + decay * parameter;
      sum += gradient * gradient;
      parameter -= lr * gradient / (std::sqrt(sum) + eps);
    }
  };
  TANDEM_HOST_DEVICE Update at(float count, bool) const {
    return {static_cast<float>(lr / (1 + (static_cast<double>(count) - 1) * lr_decay)), eps, decay, sign};
  }
};

// A moving average. The segment's `parameter` is the average, and `gradient` contains the numbers that it follows.
struct Average {
  static constexpr std::array<const char*, 0> state_names{};
  static constexpr bool counts = false;
  float weight;  // the weight of the new numbers

  TANDEM_HOST_DEVICE void operator()(float& average, float now) const { average = lerp(average, now, weight); }
};

// Scales gradients down to a norm of at most `most`. The rule changes the gradients in place: the segment's `parameter`
// and `gradient` both point to them.
struct ClipNorm {
  static constexpr std::array<const char*, 0> state_names{};
  static constexpr bool counts = false;
  float most;

  struct Update {
    float factor;
    TANDEM_HOST_DEVICE void operator()(float& number, float) const { number *= factor; }
  };
  // Here the segment's `count` is the norm of the gradients, not a number of updates. A NaN in it propagates to the
  // gradients, as in PyTorch.
  TANDEM_HOST_DEVICE Update at(float norm, bool) const {
    const float factor = most / (norm + 1e-6f);
    return {factor > 1 ? 1 : factor};
  }
};

struct ClipValue {
  static constexpr std::array<const char*, 0> state_names{};
  static constexpr bool counts = false;
  float most;

  TANDEM_HOST_DEVICE void operator()(float& number, float) const {
    number = number < -most ? -most : number > most ? most : number;
  }
};

}  // namespace rules

// A rule that the library does not know, with the code that the program's compiler generated for it. optim/own_rule.h
// creates it.
struct OwnRule {
  static constexpr std::size_t most_bytes = 128;

  alignas(16) std::array<std::byte, most_bytes> numbers;  // the rule itself
  std::span<const char* const> state_names;
  bool counts;
  // Updates the numbers [begin, end) of a segment, on the CPU.
  void (*update)(const void* rule, const UpdateSegment& segment, std::int64_t begin, std::int64_t end);
  // Like Backend::update and Backend::write_rule, on a GPU. Null if no GPU compiler has compiled the rule.
  void (*launch)(std::span<const UpdateSegment> segments, const void* rule, const void* stored);
  void (*write)(const void* rule, void* to);
};

namespace rules {
using AnyOf = std::variant<Sgd, SgdMomentum, Adam<false>, Adam<true>, RmsProp<false, false>, RmsProp<false, true>,
                           RmsProp<true, false>, RmsProp<true, true>, Adagrad, Average, ClipNorm, ClipValue, OwnRule>;
}  // namespace rules

// Any of the rules.
struct UpdateRule : rules::AnyOf {
  using rules::AnyOf::variant;
  const rules::AnyOf& any() const { return *this; }
};

// Returns the function that runs for each number of a segment.
template <class Rule>
TANDEM_HOST_DEVICE auto update_of(const Rule& rule, [[maybe_unused]] float count, [[maybe_unused]] bool is_first) {
  if constexpr (requires { rule.at(count, is_first); }) return rule.at(count, is_first);
  else return rule;
}

}  // namespace tandem
