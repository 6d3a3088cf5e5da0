// SegmentationFiles: a dataset of image files, each with a mask in another file.
#pragma once

#include <tandem/data/sample_dataset.h>

#include <filesystem>
#include <string>
#include <vector>

namespace tandem::data {

// The label of a pixel that belongs to no class and is not counted.
inline constexpr std::int64_t void_label = 255;

struct SegmentationPair {
  std::string name;
  std::filesystem::path image;  // a file that ImageFile can read
  std::filesystem::path mask;   // a file that MaskFile can read, with a mask of the same size
};

// A sample that is skipped because its files are damaged, and the reason.
struct SkippedSample {
  std::string name, reason;
};

// Pairs of images and masks in the given order. Masks hold 0 .. classes - 1 and void_label. A file is read when its
// sample is requested. With Damaged::skip, every file is also decoded once at construction, by as many threads as there
// are cores. size() and the sample numbers then count only the good samples. They are the same in every process that
// reads the same files.
class SegmentationFiles : public SampleDataset {
 public:
  enum class Damaged { error, skip };

  // Throws an Error if there are no pairs, or with Damaged::skip no good pairs. `threads` is the number of threads for
  // the check of Damaged::skip; 0: as many as there are cores.
  SegmentationFiles(std::vector<SegmentationPair> pairs, std::int64_t classes, Damaged damaged = Damaged::error,
                    int threads = 0);

  std::int64_t size() const override { return static_cast<std::int64_t>(pairs_.size()); }
  std::int64_t classes() const { return classes_; }
  const SegmentationPair& pair(std::int64_t index) const;
  // The skipped samples, in the order of the pairs.
  const std::vector<SkippedSample>& skipped() const { return skipped_; }

  // The stored image (3, H, W) u8 and mask (H, W) u8. Throws an Error with the name of the file if a file is damaged,
  // if the sizes differ, or if a label is not a class.
  Sample sample(std::int64_t index) const override;

 private:
  std::vector<SegmentationPair> pairs_;
  std::int64_t classes_;
  std::vector<SkippedSample> skipped_;

  void leave_out_damaged(int threads);
};

// Returns whether all pixels of the integer masks are void. The masks may be on any device.
bool is_void(const Array& masks);
// Throws the Error for a label in the mask `path` that is neither a class nor void_label.
[[noreturn]] void fail_for_label(const std::filesystem::path& path, std::int64_t label, std::int64_t classes);
// Throws the Error for a pair whose image and mask differ in size.
[[noreturn]] void fail_for_sizes(const SegmentationPair& pair, const Shape& image, const Shape& mask);

}  // namespace tandem::data
