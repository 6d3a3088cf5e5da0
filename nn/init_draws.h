// Draws a whole tensor of random numbers as PyTorch does on the CPU. T is float or double. For init.cpp.
#pragma once

#include <tandem/core/random/random.h>

#include <cmath>
#include <vector>

namespace tandem::nn::init::detail {

template <class T>
std::vector<T> uniform_values(std::int64_t count, double low, double high, Generator& generator) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& v : values) v = generator.uniform(static_cast<T>(low), static_cast<T>(high));
  return values;
}

// PyTorch scales fewer than 16 numbers before it rounds them, and more numbers after.
template <class T>
std::vector<T> normal_values(std::int64_t count, double mean, double std, Generator& generator) {
  std::vector<T> values(static_cast<std::size_t>(count));
  if (count < 16) {
    for (T& v : values) v = static_cast<T>(generator.normal() * std + mean);
    return values;
  }
  generator.fill_normal(values.data(), count);
  for (T& v : values) v = std::fma(v, static_cast<T>(std), static_cast<T>(mean));
  return values;
}

}  // namespace tandem::nn::init::detail
