// SegmentationFiles: pictures with a mask each, in files.
#pragma once

#include <tandem/data/sample_dataset.h>

#include <filesystem>
#include <string>
#include <vector>

namespace tandem::data {

// A pixel that belongs to no class, and counts nowhere.
inline constexpr std::int64_t void_label = 255;

struct SegmentationPair {
  std::string name;
  std::filesystem::path image;  // what ImageFile reads
  std::filesystem::path mask;   // what MaskFile reads: of the same size
};

// A sample that is left out because its files are damaged, and why.
struct SkippedSample {
  std::string name, reason;
};

// Pairs in the order given; masks hold 0 .. classes-1 and void_label. Nothing is read before it is asked for, except
// where damaged samples are to be left out: then every file is decoded once at the start, by as many threads as there
// are cores. size() and the numbers of the samples are then those of the good ones, the same in every process that sees
// the same files.
class SegmentationFiles : public SampleDataset {
 public:
  enum class Damaged { error, skip };

  // Error when there are no pairs, or with Damaged::skip no good ones. `threads`: for that check; 0: as many as there
  // are cores.
  SegmentationFiles(std::vector<SegmentationPair> pairs, std::int64_t classes, Damaged damaged = Damaged::error,
                    int threads = 0);

  std::int64_t size() const override { return static_cast<std::int64_t>(pairs_.size()); }
  std::int64_t classes() const { return classes_; }
  const SegmentationPair& pair(std::int64_t index) const;
  // Those left out, in the order of the list.
  const std::vector<SkippedSample>& skipped() const { return skipped_; }

  // The picture (3, H, W) u8 and the mask (H, W) u8 as they are stored. Error, with the file's name: damaged, of two
  // sizes, or a label that is no class.
  Sample sample(std::int64_t index) const override;

 private:
  std::vector<SegmentationPair> pairs_;
  std::int64_t classes_;
  std::vector<SkippedSample> skipped_;

  void leave_out_damaged(int threads);
};

// What to say of a label in the mask `path` that is neither a class nor void_label.
[[noreturn]] void fail_for_label(const std::filesystem::path& path, std::int64_t label, std::int64_t classes);
// What to say of a pair whose picture and mask differ in size.
[[noreturn]] void fail_for_sizes(const SegmentationPair& pair, const Shape& image, const Shape& mask);

}  // namespace tandem::data
