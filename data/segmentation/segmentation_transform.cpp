#include <tandem/data/segmentation/segmentation_transform.h>

#include <tandem/data/images/image_png.h>
#include <tandem/data/images/image_resample.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tandem::data {

namespace {

// The positions in the resized image for the outputs begin .. begin + count - 1 of an axis. Outputs beyond `size` are
// padding at the end and have no position.
std::vector<std::int64_t> positions(std::int64_t begin, std::int64_t count, std::int64_t size, bool mirrored) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = begin; i < std::min(begin + count, size); ++i) result.push_back(mirrored ? size - 1 - i : i);
  return result;
}

// The smallest of the sizes 1, 2, 4 and 8 eighths that is not smaller than the resized image. Decoding at sizes between
// these is slower than decoding the whole image.
int eighths_for(const ImageFile& image, const SegmentationGeometry& geometry) {
  for (const int eighths : {1, 2, 4})
    if (geometry.resized_height * 8 <= image.height() * eighths &&
        geometry.resized_width * 8 <= image.width() * eighths)
      return eighths;
  return 8;
}

void check(const SegmentationGeometry& geometry) {
  const ImageWindow& window = geometry.window;
  TANDEM_CHECK(geometry.resized_height > 0 && geometry.resized_width > 0 && window.height > 0 && window.width > 0 &&
                   window.top >= 0 && window.left >= 0 && window.top < geometry.resized_height &&
                   window.left < geometry.resized_width,
               "a window of ", window.width, " x ", window.height, " at ", window.left, ", ", window.top,
               " can't be cut from a picture of ", geometry.resized_width, " x ", geometry.resized_height, " pixels");
}

}  // namespace

SegmentationTransform SegmentationTransform::train(std::int64_t base, std::int64_t crop, double min_scale,
                                                   double max_scale) {
  const double shortest = static_cast<double>(base) * min_scale, longest = static_cast<double>(base) * max_scale;
  constexpr double most = 1 << 14;  // a square with this side is the largest image that draw() allows
  TANDEM_CHECK(1 <= shortest && shortest <= longest && longest <= most, "random resizing of a base of ", base,
               " from min_scale ", min_scale, " to max_scale ", max_scale, " gives short sides of ", shortest, " to ",
               longest, " pixels: expected 1 to ", most);
  TANDEM_CHECK(crop >= 1, "the crop is ", crop, ", expected at least 1");
  return {.min_short = static_cast<std::int64_t>(shortest),
          .max_short = static_cast<std::int64_t>(longest),
          .crop = crop,
          .random = true,
          .scaled_decode = true};
}

SegmentationTransform SegmentationTransform::evaluation(std::int64_t base, std::int64_t max_long) {
  TANDEM_CHECK(base >= 1 && max_long >= 0, "pictures can't be resized to a short side of ", base,
               " pixels and a long one of at most ", max_long);
  return {.min_short = base, .max_short = base, .max_long = max_long};
}

SegmentationTransform SegmentationTransform::middle(std::int64_t crop) {
  TANDEM_CHECK(crop >= 1, "the crop is ", crop, ", expected at least 1");
  return {.min_short = crop, .max_short = crop, .crop = crop};
}

SegmentationGeometry SegmentationTransform::draw(std::int64_t height, std::int64_t width,
                                                 SampleRandom& random_numbers) const {
  std::int64_t shorter = random ? min_short + random_numbers.below(max_short - min_short + 1) : min_short;
  std::int64_t longer = shorter * std::max(height, width) / std::min(height, width);
  if (max_long > 0 && longer > max_long) {
    shorter = std::max<std::int64_t>(1, max_long * shorter / longer);
    longer = max_long;
  }
  // The largest resized image in pixels, which takes 3 GB in f32.
  constexpr std::int64_t most = std::int64_t{1} << 28;
  TANDEM_CHECK(longer <= most / shorter, "a picture of ", width, " x ", height,
               " pixels is too long and narrow to be resized to a short side of ", shorter);
  SegmentationGeometry geometry{height <= width ? shorter : longer, height <= width ? longer : shorter, false, {}};
  if (random) geometry.flip = random_numbers.chance(0.5);
  if (crop == 0) {
    geometry.window = {0, 0, geometry.resized_height, geometry.resized_width};
    return geometry;
  }
  const auto offset = [&](std::int64_t size) {
    const std::int64_t room = std::max<std::int64_t>(0, size - crop);
    if (random) return random_numbers.below(room + 1);
    return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(room) / 2));  // the same as Python's round()
  };
  const std::int64_t top = offset(geometry.resized_height), left = offset(geometry.resized_width);
  geometry.window = {top, left, crop, crop};
  return geometry;
}

PreparedSegmentation::PreparedSegmentation(const SegmentationFiles& files, const SegmentationTransform& transform,
                                           std::uint64_t seed)
    : files_(files), transform_(transform), seed_(seed) {
  TANDEM_CHECK(transform.min_short >= 1 && transform.max_short >= transform.min_short && transform.crop >= 0,
               "pictures can't be resized to ", transform.min_short, " to ", transform.max_short,
               " pixels with a crop of ", transform.crop);
  TANDEM_CHECK(!transform.keeps_masks || (transform.crop == 0 && !transform.random),
               "keeps_masks can't be combined with cropping or flipping");
  fill(table_, transform);
}

void PreparedSegmentation::fill(Table& table, const SegmentationTransform& transform) {
  for (std::size_t c = 0; c < 3; ++c) {
    TANDEM_CHECK(transform.std[c] > 0, "normalise: a deviation must be above 0, got ", transform.std[c]);
    for (int value = 0; value < 256; ++value)
      table[c][value] = (static_cast<float>(value) / 255.0f - transform.mean[c]) / transform.std[c];
  }
}

void PreparedSegmentation::write_image(const ImageFile& image, const SegmentationGeometry& geometry, const Table& table,
                                       bool scaled_decode, float* out) {
  check(geometry);
  const ImageWindow& window = geometry.window;
  const int eighths = scaled_decode && image.can_scale() ? eighths_for(image, geometry) : 8;
  const auto axis = [&](std::int64_t size, std::int64_t resized, const std::vector<std::int64_t>& outputs) {
    return bilinear_axis(ImageFile::scaled(size, eighths), static_cast<double>(size * eighths) / 8, resized, outputs);
  };
  const ResampleAxis rows = axis(image.height(), geometry.resized_height,
                                 positions(window.top, window.height, geometry.resized_height, false));
  const ResampleAxis columns = axis(image.width(), geometry.resized_width,
                                    positions(window.left, window.width, geometry.resized_width, geometry.flip));
  const ImageWindow needed{rows.begin(), columns.begin(), rows.end() - rows.begin(), columns.end() - columns.begin()};
  const Array pixels = eighths == 8 ? image.read(needed) : image.read_scaled(needed, eighths);
  const std::int64_t stride = 3 * window.width;
  resample(pixels, needed.top, needed.left, rows, columns, table, out, stride);

  const auto pad = [&](float* from, const float* to) {
    for (; from != to; from += 3)
      for (int c = 0; c < 3; ++c) from[c] = table[c][0];
  };
  const auto height = static_cast<std::int64_t>(rows.first.size()),
             width = static_cast<std::int64_t>(columns.first.size());
  if (width < window.width)
    for (std::int64_t y = 0; y < height; ++y) pad(out + y * stride + 3 * width, out + (y + 1) * stride);
  pad(out + height * stride, out + window.height * stride);
}

void PreparedSegmentation::write_mask(const SegmentationPair& pair, const SegmentationGeometry& geometry,
                                      std::int64_t height, std::int64_t width, std::int64_t* out) const {
  const ImageWindow& window = geometry.window;
  const MaskFile file(pair.mask);
  if (file.height() != height || file.width() != width)
    fail_for_sizes(pair, {height, width}, {file.height(), file.width()});
  const auto source_rows = nearest_axis(height, geometry.resized_height),
             source_columns = nearest_axis(width, geometry.resized_width);
  const auto rows = positions(window.top, window.height, geometry.resized_height, false),
             columns = positions(window.left, window.width, geometry.resized_width, geometry.flip);
  std::vector<std::int32_t> from;
  for (const auto x : columns) from.push_back(source_columns[static_cast<std::size_t>(x)]);
  const Array mask = file.read(source_rows[static_cast<std::size_t>(rows.back())] + 1);
  for (const auto y : rows) {
    const auto* labels = mask.data<std::uint8_t>() + source_rows[static_cast<std::size_t>(y)] * width;
    bool is_right = true;
    for (std::size_t x = 0; x < from.size(); ++x) {
      const std::int64_t label = labels[from[x]];
      is_right &= (label < files_.classes()) | (label == void_label);
      out[x] = label;
    }
    if (!is_right)
      for (std::size_t x = 0; x < from.size(); ++x)
        if (out[x] >= files_.classes() && out[x] != void_label) fail_for_label(pair.mask, out[x], files_.classes());
    std::fill(out + from.size(), out + window.width, void_label);
    out += window.width;
  }
  std::fill_n(out, (window.height - static_cast<std::int64_t>(rows.size())) * window.width, void_label);
}

SegmentationGeometry PreparedSegmentation::draw(const SegmentationTransform& transform, const ImageFile& image,
                                                SampleRandom& random_numbers) {
  try {
    return transform.draw(image.height(), image.width(), random_numbers);
  } catch (const Error& error) {
    throw Error("the image " + image.path().string() + ": " + error.what());
  }
}

Sample PreparedSegmentation::make(const SegmentationPair& pair, const ImageFile& image,
                                  const SegmentationGeometry& geometry) const {
  SegmentationGeometry of_mask = geometry;
  if (transform_.keeps_masks) of_mask = {image.height(), image.width(), false, {0, 0, image.height(), image.width()}};
  const Array pixels = Array::empty({geometry.window.height, geometry.window.width, 3});
  const Array labels = Array::empty({of_mask.window.height, of_mask.window.width}, DType::i64);
  write_image(image, geometry, table_, transform_.scaled_decode, pixels.data<float>());
  write_mask(pair, of_mask, image.height(), image.width(), labels.data<std::int64_t>());
  return {pixels.permute({2, 0, 1}), labels};
}

Sample PreparedSegmentation::sample(std::int64_t index, const SegmentationGeometry& geometry) const {
  const SegmentationPair& pair = files_.pair(index);
  return make(pair, ImageFile(pair.image), geometry);
}

Sample PreparedSegmentation::sample(std::int64_t index) const {
  const SegmentationPair& pair = files_.pair(index);
  const ImageFile image(pair.image);
  SampleRandom random(seed_, index);
  return make(pair, image, draw(transform_, image, random));
}

Batch PreparedSegmentation::get(std::span<const std::int64_t> indices) const {
  if (transform_.crop == 0) return SampleDataset::get(indices);
  const auto count = static_cast<std::int64_t>(indices.size());
  const std::int64_t side = transform_.crop, area = side * side;
  const Batch batch{Array::empty_channels_last({count, 3, side, side}), Array::empty({count, side, side}, DType::i64)};
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = indices[static_cast<std::size_t>(i)];
    const SegmentationPair& pair = files_.pair(index);
    const ImageFile image(pair.image);
    SampleRandom random(seed_, index);
    const SegmentationGeometry geometry = draw(transform_, image, random);
    write_image(image, geometry, table_, transform_.scaled_decode, batch.inputs.data<float>() + i * 3 * area);
    write_mask(pair, geometry, image.height(), image.width(), batch.targets.data<std::int64_t>() + i * area);
  }
  return batch;
}

Array PreparedSegmentation::prepare(const ImageFile& image, const SegmentationTransform& transform) {
  TANDEM_CHECK(!transform.random, "PreparedSegmentation::prepare: the transform must not be random");
  Table table;
  fill(table, transform);
  SampleRandom unused(0, 0, 0);
  const SegmentationGeometry geometry = draw(transform, image, unused);
  const Array pixels = Array::empty({geometry.window.height, geometry.window.width, 3});
  write_image(image, geometry, table, transform.scaled_decode, pixels.data<float>());
  return pixels.permute({2, 0, 1});
}

}  // namespace tandem::data
