// Mnist: 28x28 images of handwritten digits, in memory. http://yann.lecun.com/exdb/mnist/
#pragma once

#include <tandem/data/dataset.h>

#include <filesystem>

namespace tandem::data {

enum class Split { train, test };

// Constant after construction; any method may be called from several threads at once.
class Mnist : public Dataset {
 public:
  static constexpr std::int64_t height = 28;
  static constexpr std::int64_t width = 28;
  static constexpr std::int64_t classes = 10;

  // Reads the two files of `split` from `folder` or `folder`/MNIST/raw, uncompressed (preferred) or with .gz. Throws an
  // Error if a file is missing or damaged, the numbers of images and labels differ, images are not 28x28 or a label is
  // above 9.
  Mnist(const std::filesystem::path& folder, Split split);

  std::int64_t size() const override { return labels_.dim(0); }
  // images (N, 1, 28, 28) f32 in [0, 1]: value / 255, bitwise identical to torchvision's ToTensor. labels (N) i64.
  Batch get(std::span<const std::int64_t> indices) const override;

  // Returns the data set in the memory of `device`. If the images are already there, the result shares their memory.
  Mnist to(Device device) const;
  Device device() const override { return images_.device(); }
  Batch gather(const Array& indices) const override;

  const Array& images() const { return images_; }  // (N, 1, 28, 28) u8
  const Array& labels() const { return labels_; }  // (N) u8

 private:
  Array images_;
  Array labels_;
  Array targets_;  // (N) i64: the labels in the dtype of batches
};

}  // namespace tandem::data
