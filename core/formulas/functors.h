// The element-wise operations: one struct for each, with value and derivative side by side, compiled for every device.
//
// A unary struct has value(x) and derivative(s), where `saves` says whether s is the input x or the output y, whichever
// gives the cheaper formula. A binary struct has value(a, b) and the derivatives with respect to a and b. T is the type
// used for computation: float for f32, bf16 and f16; double for f64; for an integer dtype, its own type.
//
// A struct may also have these flags:
//   keeps_integers: the result for integers is an integer. Without the flag, integers are converted to f32 first.
//   selects:        where the derivative is 0, not even an infinite gradient passes.
//
// To add an operation: CONTRIBUTING.md lists the files.
#pragma once

#include <tandem/core/formulas/functors/activations.h>
#include <tandem/core/formulas/functors/angles.h>
#include <tandem/core/formulas/functors/arithmetic.h>
#include <tandem/core/formulas/functors/comparisons.h>
#include <tandem/core/formulas/functors/division.h>
#include <tandem/core/formulas/functors/piecewise.h>
#include <tandem/core/formulas/functors/powers.h>
#include <tandem/core/formulas/functors/smooth.h>

#include <variant>

namespace tandem {

using UnaryOp =
    std::variant<functors::Affine, functors::DivideBy, functors::Reciprocal, functors::Square, functors::Abs,
                 functors::Sign, functors::Floor, functors::Ceil, functors::Trunc, functors::Round, functors::Clamp,
                 functors::NanToNum, functors::Power, functors::Cube, functors::Exponential, functors::Exp,
                 functors::Exp2, functors::Expm1, functors::Log, functors::Log2, functors::Log10, functors::Log1p,
                 functors::Sqrt, functors::Rsqrt, functors::Sin, functors::Cos, functors::Tan, functors::Asin,
                 functors::Acos, functors::Atan, functors::Sinh, functors::Cosh, functors::Erf, functors::Relu,
                 functors::LeakyRelu, functors::Elu, functors::Sigmoid, functors::Tanh, functors::Gelu,
                 functors::GeluTanh, functors::Silu, functors::Softplus, functors::Hardswish, functors::Hardtanh,
                 functors::Hardsigmoid, functors::Threshold, functors::Softsign, functors::Mish, functors::LogSigmoid>;
using BinaryOp = std::variant<functors::Add, functors::Sub, functors::Mul, functors::Div, functors::Fmod,
                              functors::Remainder, functors::FloorDivide, functors::Pow, functors::Atan2,
                              functors::Maximum, functors::Minimum, functors::Prelu, functors::Glu>;
using CompareOp = std::variant<functors::Equal, functors::NotEqual, functors::Less, functors::LessEqual,
                               functors::Greater, functors::GreaterEqual, functors::And, functors::Or, functors::Xor>;

template <class F>
inline constexpr bool keeps_integers = requires {
  F::keeps_integers;
};
template <class F>
inline constexpr bool selects = requires {
  F::selects;
};

}  // namespace tandem
