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

// All ranks must return the same value, already summed or averaged over the ranks. In files, nan becomes null.
struct Metric {
  // How the value is printed: 0.98 as "98.00 %", as "0.98", or as "0.98 s".
  enum class Kind { fraction, number, seconds };

  std::string name;  // "test_accuracy"
  // Vectors and tables are written to files, but not printed.
  std::variant<double, std::vector<double>, Table> value;
  Kind kind = Kind::number;
};

// Returns NaN without its sign, which has no meaning for users, and other numbers unchanged.
double plain(double value);
// Returns "test accuracy 98.00 %, loss 0.071". It omits vectors and tables.
std::string shown(const std::vector<Metric>& metrics);
// Returns a table as Markdown, for TensorBoard. Throws an Error if the number of values does not match the rows and
// columns.
std::string markdown(const Table& table, Metric::Kind kind);

}  // namespace tandem::distributed
