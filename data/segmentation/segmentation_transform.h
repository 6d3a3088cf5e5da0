// What happens to pictures and masks on their way into a network for segmentation: resize, flip, crop and normalise, in
// one pass.
#pragma once

#include <tandem/data/images/image_file.h>
#include <tandem/data/segmentation/segmentation.h>

#include <array>

namespace tandem::data {

// Where an output's pixels come from: the picture is resized, then mirrored from left to right where `flip`, and of
// that `window` is cut. What of the window lies outside (below, or to the right) is padding.
struct SegmentationGeometry {
  std::int64_t resized_height, resized_width;
  bool flip;
  ImageWindow window;
};

// Values and order are those of torchvision's references/segmentation with pictures of Pillow: bilinear with a filter
// that grows with the reduction (pictures) or nearest (masks); padding is 0 before normalising, and void in the mask.
struct SegmentationTransform {
  std::int64_t min_short, max_short;  // the short side after resizing: drawn from [min_short, max_short]
  std::int64_t crop = 0;              // cut a square of this size; 0: none
  bool random = false;                // flip half of them, and cut anywhere; else cut the middle
  // Decode a JPEG at 1/2, 1/4 or 1/8 of its size where it is to be reduced at least so much: faster, and pixels that
  // differ from those of torchvision, in photographs by one to three grey levels on average.
  bool scaled_decode = false;
  std::array<float, 3> mean{0.485f, 0.456f, 0.406f}, std{0.229f, 0.224f, 0.225f};  // ImageNet's

  // Training: a short side of min_scale to max_scale times `base`, rounded down, flip, a random crop.
  static constexpr double default_min_scale = 0.5, default_max_scale = 2;
  static SegmentationTransform train(std::int64_t base, std::int64_t crop, double min_scale = default_min_scale,
                                     double max_scale = default_max_scale);
  // Evaluation: a short side of `base`, whole pictures, whose sizes differ: one by one into the network.
  static SegmentationTransform evaluation(std::int64_t base);
  // A short side of `crop`, and the middle of the picture.
  static SegmentationTransform middle(std::int64_t crop);

  // Draws what is random for a picture of this size: the short side, the flip, then top and left, in this order.
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
