// Prepares images and masks for a segmentation network: resizes, flips, crops and normalises in one pass.
#pragma once

#include <tandem/data/images/image_file.h>
#include <tandem/data/segmentation/segmentation.h>

#include <array>

namespace tandem::data {

// Describes where the pixels of an output come from. The image is resized, then mirrored from left to right if `flip`
// is true, and then cropped to `window`. The part of the window outside the image, below it or to the right, is
// padding.
struct SegmentationGeometry {
  std::int64_t resized_height, resized_width;
  bool flip;
  ImageWindow window;
};

// Values and the order of the steps match torchvision's references/segmentation with Pillow images. Images are resized
// bilinearly, with a filter that grows with the reduction; masks use the nearest pixel. Padding is 0 in the image
// before it is normalised, and void in the mask.
struct SegmentationTransform {
  std::int64_t min_short, max_short;  // the short side after resizing: drawn from [min_short, max_short]
  std::int64_t crop = 0;              // the side of the cropped square; 0: no crop
  // The largest long side after resizing, like torchvision's max_size. If it would be exceeded, both sides are reduced
  // in proportion. 0: no limit.
  std::int64_t max_long = 0;
  // True: half of the images are flipped, and the crop position is random. False: no flips, and a centred crop.
  bool random = false;
  // Whether a JPEG is decoded at 1/2, 1/4 or 1/8 of its size if it is reduced at least that much. This is faster. The
  // pixels then differ from torchvision's, in photographs by one to three grey levels on average.
  bool scaled_decode = false;
  // Whether masks keep their size, for metrics over all pixels. Can't be combined with a crop or random numbers.
  bool keeps_masks = false;
  std::array<float, 3> mean{0.485f, 0.456f, 0.406f}, std{0.229f, 0.224f, 0.225f};  // ImageNet's

  // For training. The short side is drawn from min_scale * base to max_scale * base, both rounded down. The flip and
  // the crop position are random.
  static constexpr double default_min_scale = 0.5, default_max_scale = 2;
  static SegmentationTransform train(std::int64_t base, std::int64_t crop, double min_scale = default_min_scale,
                                     double max_scale = default_max_scale);
  // For evaluation: whole images with a short side of `base`. Their sizes differ, so each is a separate batch.
  static SegmentationTransform evaluation(std::int64_t base, std::int64_t max_long = 0);
  // Makes all images the same size, without random numbers: scales the short side to `crop`, and crops the centre.
  static SegmentationTransform middle(std::int64_t crop);

  // Draws the random numbers for an image of this size, in this order: the short side, the flip, top, left.
  SegmentationGeometry draw(std::int64_t height, std::int64_t width, SampleRandom& random_numbers) const;
};

// The transformed samples of `files`: the image (3, H, W) f32, normalised and channels last, and the mask (H, W) i64. A
// sample is a pure function of (seed, epoch, index), so it does not depend on the number of workers or ranks. Only the
// parts of a file that the crop keeps are decoded, so damage elsewhere goes unnoticed. With a crop, samples are written
// directly into the batch, channels last. sample() and get() may be called from several threads at once. `files` must
// outlive this object.
class PreparedSegmentation : public SampleDataset {
 public:
  PreparedSegmentation(const SegmentationFiles& files, const SegmentationTransform& transform, std::uint64_t seed = 0);
  PreparedSegmentation(const SegmentationFiles&& files, const SegmentationTransform& transform,
                       std::uint64_t seed = 0) = delete;  // `files` must outlive this object

  std::int64_t size() const override { return files_.size(); }
  Sample sample(std::int64_t index) const override;
  Batch get(std::span<const std::int64_t> indices) const override;

  // A sample with a given geometry.
  Sample sample(std::int64_t index, const SegmentationGeometry& geometry) const;
  // Prepares an image without a mask, (3, H, W) f32, for a prediction. Throws an Error if the transform is random.
  static Array prepare(const ImageFile& image, const SegmentationTransform& transform);

 private:
  using Table = float[3][256];  // for each channel, the normalised value of each byte

  const SegmentationFiles& files_;
  SegmentationTransform transform_;
  std::uint64_t seed_;
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
