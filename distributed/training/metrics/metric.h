// Metric: a figure that a program computes when it evaluates its model.
#pragma once

#include <string>
#include <variant>
#include <vector>

namespace tandem::distributed {

// Numbers by row and column, such as the IoU and accuracy of each class, or a confusion matrix.
struct Table {
  std::vector<std::string> rows, columns;   // their names
  std::vector<std::vector<double>> values;  // by column, then by row
};

// All ranks must give the same value, one that is already summed or averaged over the ranks. In files, nan becomes
// null.
struct Metric {
  // How people see it: 0.98 as "98.00 %", as "0.98", or as "0.98 s".
  enum class Kind { fraction, number, seconds };

  std::string name;  // "test_accuracy"
  // Several numbers are written to files and not shown.
  std::variant<double, std::vector<double>, Table> value;
  Kind kind = Kind::number;
};

// NaN without its sign, which says nothing to people; other numbers as they are.
double plain(double value);
// "test accuracy 98.00 %, loss 0.071"; several numbers are left out.
std::string shown(const std::vector<Metric>& metrics);
// A table as Markdown, for TensorBoard. Error when it has not as many values as rows and columns.
std::string markdown(const Table& table, Metric::Kind kind);

}  // namespace tandem::distributed
