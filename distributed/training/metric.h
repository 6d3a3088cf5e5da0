// Metric: a figure that a program computes when it evaluates its model.
#pragma once

#include <string>
#include <variant>
#include <vector>

namespace tandem::distributed {

// All ranks must give the same value: it is a sum or a mean over the ranks. In files, nan becomes null.
struct Metric {
  // How people see it: 0.98 as "98.00 %", as "0.98", or as "0.98 s".
  enum class Kind { fraction, number, seconds };

  std::string name;                                 // "test_accuracy"
  std::variant<double, std::vector<double>> value;  // several numbers are written to files and not shown
  Kind kind = Kind::number;
};

// "test accuracy 98.00 %, loss 0.071"; several numbers are left out.
std::string shown(const std::vector<Metric>& metrics);

}  // namespace tandem::distributed
