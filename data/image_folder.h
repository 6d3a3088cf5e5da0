// ImageFolder: a folder of images for each class.
#pragma once

#include <tandem/data/sample_dataset.h>

#include <filesystem>
#include <string>
#include <vector>

namespace tandem::data {

// Images in files FOLDER/CLASS/NAME.jpg, as in torchvision's ImageFolder. Classes get their numbers in the order of the
// names of their folders. Images are sorted by path, also those in folders below the folder of a class. An image is
// read when it is asked for.
class ImageFolder : public SampleDataset {
 public:
  // Error when there is no class, or a class without an image: .jpg, .jpeg, .png, .ppm, .bmp, .pgm (any case).
  explicit ImageFolder(const std::filesystem::path& folder);

  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  // The image (3, H, W) u8, and its class () i64.
  Sample sample(std::int64_t index) const override;

  const std::vector<std::string>& classes() const { return classes_; }
  const std::filesystem::path& file(std::int64_t index) const { return at(index).path; }

 private:
  struct File {
    std::filesystem::path path;
    std::int64_t label;
  };
  const File& at(std::int64_t index) const;
  std::vector<std::string> classes_;
  std::vector<File> files_;
};

}  // namespace tandem::data
