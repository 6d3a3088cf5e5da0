// Cifar: 32x32 colour photographs of 10 or 100 classes, in memory. https://www.cs.toronto.edu/~kriz/cifar.html
#pragma once

#include <tandem/data/mnist.h>
#include <tandem/data/sample_dataset.h>

#include <filesystem>

namespace tandem::data {

// Constant after construction; any method may be called from several threads at once.
class Cifar : public SampleDataset {
 public:
  enum class Version { cifar10, cifar100 };

  // Reads the files of the "binary version" from `folder`, or from the subfolder that the archive creates:
  // cifar-10-batches-bin/data_batch_1.bin ... test_batch.bin, cifar-100-binary/train.bin, test.bin. Throws an Error if
  // a file is missing or has the wrong size, or if a label is not a class.
  Cifar(const std::filesystem::path& folder, Version version, Split split);
  // Returns whether `folder` holds all files of `version`.
  static bool is_in(const std::filesystem::path& folder, Version version);

  std::int64_t size() const override { return labels_.dim(0); }
  std::int64_t classes() const { return classes_; }
  // The stored image (3, 32, 32) u8 and its class () i64, for transforms. CIFAR-100 uses the fine class.
  Sample sample(std::int64_t index) const override;
  // images (N, 3, 32, 32) f32 in [0, 1]: value/255. labels (N) i64.
  Batch get(std::span<const std::int64_t> indices) const override;

  Cifar to(Device device) const;
  Device device() const override { return images_.device(); }
  Batch gather(const Array& indices) const override;

  const Array& images() const { return images_; }  // (N, 3, 32, 32) u8, channels last
  const Array& labels() const { return labels_; }  // (N) i64

 private:
  Array images_, labels_;
  std::int64_t classes_;
};

}  // namespace tandem::data
