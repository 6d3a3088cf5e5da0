// Prepares pictures and masks for a network for segmentation: resizes, flips, crops and normalises in one pass.
#pragma once

#include <tandem/data/images/image_file.h>
#include <tandem/data/segmentation/segmentation.h>

#include <array>

namespace tandem::data {

// Says where the pixels of an output come from. The picture is resized, then mirrored from left to right if `flip` is
// true, and then `window` is cut out. The part of the window that lies outside of the picture, below it or to the
// right, is padding.
struct SegmentationGeometry {
  std::int64_t resized_height, resized_width;
  bool flip;
  ImageWindow window;
};

// Values and the order of the steps are those of torchvision's references/segmentation with pictures of Pillow.
// Pictures are resized bilinearly, with a filter that grows with the reduction; masks take the nearest pixel. Padding
// is 0 in the picture before it is normalised, and void in the mask.
struct SegmentationTransform {
  std::int64_t min_short, max_short;  // the short side after resizing: drawn from [min_short, max_short]
  std::int64_t crop = 0;              // the side of the square that is cut out; 0: no crop
  bool random =
      false;  // true: half of the pictures are flipped, and the crop is anywhere; false: the middle is cut out
  // Whether a JPEG is decoded at 1/2, 1/4 or 1/8 of its size when it is reduced at least so much. This is faster.
  // Pixels then differ from those of torchvision, in photographs by one to three grey levels on average.
  bool scaled_decode = false;
  std::array<float, 3> mean{0.485f, 0.456f, 0.406f}, std{0.229f, 0.224f, 0.225f};  // ImageNet's

  // For training: a random short side of min_scale to max_scale times `base`, rounded down; a random flip; a random
  // crop.
  static constexpr double default_min_scale = 0.5, default_max_scale = 2;
  static SegmentationTransform train(std::int64_t base, std::int64_t crop, double min_scale = default_min_scale,
                                     double max_scale = default_max_scale);
  // For evaluation: whole pictures with a short side of `base`. Their sizes differ, so the network takes them one by
  // one.
  static SegmentationTransform evaluation(std::int64_t base);
  // A short side of `crop`, and a crop of the middle of the picture.
  static SegmentationTransform middle(std::int64_t crop);

  // Draws the random numbers for a picture of this size, in this order: the short side, the flip, top, left.
  SegmentationGeometry draw(std::int64_t height, std::int64_t width, SampleRandom& random_numbers) const;
};

// The samples of `files`, transformed: image (3, H, W) f32 normalised, in memory pixel by pixel; mask (H, W) i64. A
// pure function of (seed, epoch, index): neither the number of workers nor that of ranks changes a sample. Only those
// parts of a file are decoded that the crop keeps, and damage elsewhere is not noticed. With a crop, a batch is written
// straight to where it lies in memory, channels last. sample() and get() may be called from several threads at once,
// set_epoch() between epochs. `files` must outlive it.
class PreparedSegmentation : public SampleDataset {
 public:
  PreparedSegmentation(const SegmentationFiles& files, const SegmentationTransform& transform, std::uint64_t seed = 0);
  // Other random numbers for each epoch. To be called before each epoch, as the sampler's.
  void set_epoch(std::int64_t epoch) { epoch_ = epoch; }

  std::int64_t size() const override { return files_.size(); }
  Sample sample(std::int64_t index) const override;
  Batch get(std::span<const std::int64_t> indices) const override;

  // A sample with a geometry of your own.
  Sample sample(std::int64_t index, const SegmentationGeometry& geometry) const;
  // A picture without a mask, (3, H, W) f32, to predict one. Not for a random transform.
  static Array prepare(const ImageFile& image, const SegmentationTransform& transform);

 private:
  using Table = float[3][256];  // of each channel, what each value becomes

  const SegmentationFiles& files_;
  SegmentationTransform transform_;
  std::uint64_t seed_;
  std::int64_t epoch_ = 0;
  Table table_;

  static SegmentationGeometry draw(const SegmentationTransform& transform, const ImageFile& image,
                                   SampleRandom& random_numbers);
  Sample make(const SegmentationPair& pair, const ImageFile& image, const SegmentationGeometry& geometry) const;
  static void fill(Table& table, const SegmentationTransform& transform);
  static void write_image(const ImageFile& image, const SegmentationGeometry& geometry, const Table& table,
                          bool scaled_decode, float* out);
  void write_mask(const SegmentationPair& pair, const SegmentationGeometry& geometry, std::int64_t height,
                  std::int64_t width, std::int64_t* out) const;
};

}  // namespace tandem::data
