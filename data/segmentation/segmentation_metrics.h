// ConfusionMatrix: how often each class was predicted for each true class, and the metrics that follow.
#pragma once

#include <tandem/core/array/array.h>

#include <string>
#include <vector>

namespace tandem::data {

// Counts pixels (or samples) by their true class and their predicted class. Counts are integers. Summed over batches
// and, by an all-reduce of counts(), over ranks, they are the same as in one process with all of the data. Only one
// thread may use the object at a time.
class ConfusionMatrix {
 public:
  // A pixel whose target is `ignored` is not counted.
  explicit ConfusionMatrix(std::int64_t classes, std::int64_t ignored = 255);

  // Counts predicted classes and true classes, in arrays of one shape, i64 or u8, on any device. Error when a
  // prediction is no class, or when a target is neither a class nor `ignored`. Then nothing is counted.
  void add(const Array& prediction, const Array& target);

  // (classes, classes) i64 on the CPU. The row is the true class, the column the predicted class. The counts may be
  // summed over ranks in place.
  Array& counts() { return counts_; }
  const Array& counts() const { return counts_; }
  std::int64_t classes() const { return counts_.dim(0); }
  void reset() { counts_.fill(0); }

  // The share of the counted pixels whose class was predicted. NaN when no pixel was counted.
  double pixel_accuracy() const;
  // For each class the intersection of its true and its predicted pixels, divided by their union. NaN for a class that
  // occurs in neither.
  std::vector<double> class_iou() const;
  // For each class the share of its true pixels that were predicted as it. NaN for a class that does not occur.
  std::vector<double> class_accuracy() const;
  // counts() by column: for each predicted class, the counts of the true classes.
  std::vector<std::vector<double>> columns() const;
  // The mean of class_iou() over the classes that are not NaN; NaN when all are. torchvision's reference counts the NaN
  // too: its mean is NaN when a class does not occur, and equal to this mean when every class occurs.
  double mean_iou() const;

  // A table for people: for each class its name, IoU, accuracy, share of the counted pixels, and the class that its
  // pixels were most often taken for. Classes that occur neither in targets nor in predictions are left out.
  std::string table(const std::vector<std::string>& names) const;

 private:
  std::int64_t ignored_;
  Array counts_;
};

}  // namespace tandem::data
