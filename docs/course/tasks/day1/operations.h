#pragma once
#include <cmath>

#include "node.h"

// The product of two arrays of one size, number by number.
inline course::Tensor mul(const course::Tensor& a, const course::Tensor& b) {
  (void)a, (void)b;
  throw course::NotWritten();  // your code
}

// The hyperbolic tangent of each number.
inline course::Tensor tanh(const course::Tensor& x) {
  (void)x;
  throw course::NotWritten();  // your code
}

// The sum of all numbers: an array of one.
inline course::Tensor sum(const course::Tensor& x) {
  (void)x;
  throw course::NotWritten();  // your code
}
