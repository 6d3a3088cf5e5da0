// ImageFolder: one folder of images per class.
#pragma once

#include <tandem/data/sample_dataset.h>

#include <filesystem>
#include <string>
#include <vector>

namespace tandem::data {

// Images are files FOLDER/CLASS/NAME.jpg, as in torchvision's ImageFolder. Classes are numbered in the order of their
// folder names. Images are sorted by path, including those in subfolders of a class folder and in folders that are
// linked there. An image is read when its sample is requested.
class ImageFolder : public SampleDataset {
 public:
  // Throws an Error if there is no class, or a class without an image: .jpg, .jpeg, .png, .ppm, .bmp, .pgm (any case).
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
