// A data set of fifty small images, for tests of whole training runs.
#pragma once

#include <tandem/data/array_dataset.h>

#include <support/small_training.h>

namespace tandem::testing {

inline const data::ArrayDataset& fifty_samples() {
  static const data::ArrayDataset all = [] {
    const Samples some(0, 50);
    return data::ArrayDataset(some.images, some.labels);
  }();
  return all;
}

}  // namespace tandem::testing
