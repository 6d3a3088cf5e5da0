// How PyTorch's CPU draws a whole tensor of random numbers: T is float or double. For init.cpp.
#pragma once

#include <tandem/core/random.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace tandem::nn::init::detail {

template <class T>
std::vector<T> uniform_values(std::int64_t count, double low, double high, Generator& generator) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& v : values) v = generator.uniform(static_cast<T>(low), static_cast<T>(high));
  return values;
}

// Two uniform numbers make two normal ones (Box and Muller). From 16 numbers on, PyTorch pairs the first eight of each
// sixteen with the last eight, and draws the last sixteen anew where the count is no multiple; below, it works on doubles.
template <class T>
std::vector<T> normal_values(std::int64_t count, double mean, double std, Generator& generator) {
  const auto size = static_cast<std::size_t>(count);
  if (size < 16) {
    std::vector<T> values;
    while (values.size() < size) {
      const double u1 = generator.uniform(0.0, 1.0), u2 = generator.uniform(0.0, 1.0);
      const double radius = std::sqrt(-2 * std::log1p(-u2)), angle = 2 * std::numbers::pi * u1;
      values.push_back(static_cast<T>(radius * std::cos(angle) * std + mean));
      if (values.size() < size) values.push_back(static_cast<T>(radius * std::sin(angle) * std + mean));
    }
    return values;
  }
  auto values = uniform_values<T>(count, 0, 1, generator);
  const auto m = static_cast<T>(mean), s = static_cast<T>(std);
  const auto transform = [&](T* block) {
    for (int i = 0; i < 8; ++i) {
      const T radius = std::sqrt(-2 * std::log(1 - block[i]));
      const T angle = static_cast<T>(2 * std::numbers::pi) * block[i + 8];
      block[i] = std::fma(radius * std::cos(angle), s, m);
      block[i + 8] = std::fma(radius * std::sin(angle), s, m);
    }
  };
  for (std::size_t i = 0; i + 16 <= size; i += 16) transform(&values[i]);
  if (size % 16 != 0) {
    for (std::size_t i = size - 16; i < size; ++i) values[i] = generator.uniform(T{0}, T{1});
    transform(&values[size - 16]);
  }
  return values;
}

}  // namespace tandem::nn::init::detail
