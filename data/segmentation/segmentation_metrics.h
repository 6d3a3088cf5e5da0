// ConfusionMatrix counts how often each class was predicted for each true class, and derives metrics.
#pragma once

#include <tandem/core/array/array.h>

#include <string>
#include <vector>

namespace tandem::data {

// Counts pixels (or samples) by true class and predicted class. Counts are integers. Summed over batches, and over
// ranks with an all-reduce of counts(), they are the same as in one process with all the data. Not thread-safe.
class ConfusionMatrix {
 public:
  // Pixels whose target is `ignored` are not counted.
  explicit ConfusionMatrix(std::int64_t classes, std::int64_t ignored = 255);

  // Counts predicted and true classes, in arrays of the same shape, i64 or u8, on any device. Throws an Error and
  // counts nothing if a prediction is not a class, or if a target is neither a class nor `ignored`.
  void add(const Array& prediction, const Array& target);

  // (classes, classes) i64 on the CPU. The row is the true class, the column the predicted class. A program may sum the
  // counts over ranks in place.
  Array& counts() { return counts_; }
  const Array& counts() const { return counts_; }
  std::int64_t classes() const { return counts_.dim(0); }
  void reset() { counts_.fill(0); }

  // The fraction of counted pixels whose class was predicted. NaN if no pixel was counted.
  double pixel_accuracy() const;
  // For each class, the intersection of its true and predicted pixels, divided by their union. NaN for a class that
  // occurs in neither.
  std::vector<double> class_iou() const;
  // For each class, the fraction of its true pixels that were predicted as this class. NaN for a class that does not
  // occur.
  std::vector<double> class_accuracy() const;
  // counts() by column: for each predicted class, the counts of the true classes.
  std::vector<std::vector<double>> columns() const;
  // The mean of class_iou() over the classes that are not NaN; NaN if all are. torchvision's reference includes the
  // NaNs: its mean is NaN if a class does not occur, and otherwise equals this mean.
  double mean_iou() const;

  // A printable table: for each class its name, IoU, accuracy, share of the counted pixels, and the class with which
  // its pixels were most often confused. Classes that occur neither in targets nor in predictions are omitted.
  std::string table(const std::vector<std::string>& names) const;

 private:
  std::int64_t ignored_;
  Array counts_;
};

}  // namespace tandem::data
