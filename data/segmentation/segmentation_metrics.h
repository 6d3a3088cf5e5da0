// ConfusionMatrix: how often each class was taken for each other, and what follows from that.
#pragma once

#include <tandem/core/array/array.h>

#include <vector>

namespace tandem::data {

// Counts pixels (or samples) by what they are and by what was predicted. Counts are integers: added up over batches
// and, by an all-reduce of counts(), over ranks, they give the same numbers as one process with all of the data. Not
// for several threads at once.
class ConfusionMatrix {
 public:
  // Targets that are `ignored` are not counted.
  explicit ConfusionMatrix(std::int64_t classes, std::int64_t ignored = 255);

  // Predicted classes and true ones, of one shape; i64 or u8, on any device. Error, and nothing is counted, where a
  // prediction is no class, or a target is neither a class nor ignored.
  void add(const Array& prediction, const Array& target);

  // (classes, classes) i64 on the CPU: row: the true class, column: the prediction. May be summed over ranks in place.
  Array& counts() { return counts_; }
  const Array& counts() const { return counts_; }
  std::int64_t classes() const { return counts_.dim(0); }
  void reset() { counts_.fill(0); }

  // The share of the counted pixels that were predicted right; nan where there are none.
  double pixel_accuracy() const;
  // Of each class: intersection over union of what it covers and what was predicted; nan for a class that occurs in
  // neither.
  std::vector<double> class_iou() const;
  // The mean of those that are numbers; nan where none is. (torchvision's reference counts the others too: its mean is
  // nan then, and the same as this where every class occurs.)
  double mean_iou() const;

 private:
  std::int64_t ignored_;
  Array counts_;
};

}  // namespace tandem::data
