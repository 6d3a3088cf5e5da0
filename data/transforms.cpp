#include <tandem/data/transforms.h>

#include <tandem/core/ops.h>

#include <utility>

namespace tandem::data {

namespace {

bool is_mask(const Array& target, const Array& image) {
  return target.defined() && target.rank() == 2 && target.dim(0) == image.dim(1) &&
         target.dim(1) == image.dim(2);
}

void check_image(const char* transform, const Array& image) {
  TANDEM_CHECK(image.defined() && image.rank() == 3, transform,
               ": the input must be an image (C, H, W), got ", image.defined() ? image.shape() : Shape{});
}

// (..., H, W) with each row backwards.
Array flipped(const Array& a) {
  Array result = Array::empty(a.shape(), a.dtype());
  const std::int64_t width = a.dim(-1);
  for (std::int64_t x = 0; x < width; ++x) result.select(-1, x).copy_from(a.select(-1, width - 1 - x));
  return result;
}

Array padded(const Array& a, std::int64_t padding, double value) {
  if (padding == 0) return a;
  Shape shape = a.shape();
  const int h = shape.rank() - 2, w = h + 1;
  shape[h] += 2 * padding;
  shape[w] += 2 * padding;
  Array result = Array::empty(shape, a.dtype());
  result.fill(value);
  result.slice(h, padding, padding + a.dim(h)).slice(w, padding, padding + a.dim(w)).copy_from(a);
  return result;
}

Array cropped(const Array& a, std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width) {
  return a.slice(-2, top, top + height).slice(-1, left, left + width);
}

void check_size(const char* transform, const Array& image, std::int64_t height, std::int64_t width) {
  TANDEM_CHECK(image.dim(1) >= height && image.dim(2) >= width, transform, ": the image is ", image.dim(1),
               " x ", image.dim(2), ", smaller than the ", height, " x ", width, " that were asked for");
}

}  // namespace

Transform to_float() {
  return [](Sample sample, SampleRandom&) {
    const bool bytes = sample.input.dtype() == DType::u8;
    sample.input = sample.input.to(DType::f32);
    // As torchvision: a division, which a product with 1 / 255 does not equal to the bit.
    if (bytes) sample.input = ops::zip(functors::Div{}, sample.input, ops::scalar(255));
    return sample;
  };
}

Transform normalize(std::vector<float> mean, std::vector<float> std) {
  TANDEM_CHECK(mean.size() == std.size() && !mean.empty(), "normalize: got ", mean.size(), " means and ",
               std.size(), " deviations");
  for (const float s : std) TANDEM_CHECK(s > 0, "normalize: a deviation must be above 0, got ", s);
  const auto channels = static_cast<std::int64_t>(mean.size());
  const Array means = Array::from(mean, {channels, 1, 1}), deviations = Array::from(std, {channels, 1, 1});
  return [=](Sample sample, SampleRandom&) {
    check_image("normalize", sample.input);
    TANDEM_CHECK(sample.input.dim(0) == channels && sample.input.dtype() == DType::f32,
                 "normalize: expected f32 with ", channels, " channels, got ", sample.input.shape(), ' ',
                 sample.input.dtype());
    sample.input = ops::zip(functors::Div{}, ops::zip(functors::Sub{}, sample.input, means), deviations);
    return sample;
  };
}

Transform random_horizontal_flip(double probability) {
  TANDEM_CHECK(probability >= 0 && probability <= 1,
               "random_horizontal_flip: the probability must be from 0 to 1, got ", probability);
  return [probability](Sample sample, SampleRandom& random) {
    check_image("random_horizontal_flip", sample.input);
    if (!random.chance(probability)) return sample;
    if (is_mask(sample.target, sample.input)) sample.target = flipped(sample.target);
    sample.input = flipped(sample.input);
    return sample;
  };
}

Transform random_crop(std::int64_t height, std::int64_t width, std::int64_t padding, double mask_fill) {
  constexpr std::int64_t most_padding = std::int64_t{1} << 30;
  TANDEM_CHECK(height > 0 && width > 0 && padding >= 0 && padding <= most_padding, "random_crop: ", height,
               " x ", width, " with padding ", padding, " can't be cut");
  return [=](Sample sample, SampleRandom& random) {
    check_image("random_crop", sample.input);
    const bool mask = is_mask(sample.target, sample.input);
    sample.input = padded(sample.input, padding, 0);
    check_size("random_crop", sample.input, height, width);
    const auto top = random.below(sample.input.dim(1) - height + 1),
               left = random.below(sample.input.dim(2) - width + 1);
    if (mask) sample.target = cropped(padded(sample.target, padding, mask_fill), top, left, height, width);
    sample.input = cropped(sample.input, top, left, height, width);
    return sample;
  };
}

Transform center_crop(std::int64_t height, std::int64_t width) {
  TANDEM_CHECK(height > 0 && width > 0, "center_crop: ", height, " x ", width, " can't be cut");
  return [=](Sample sample, SampleRandom&) {
    check_image("center_crop", sample.input);
    check_size("center_crop", sample.input, height, width);
    const auto top = (sample.input.dim(1) - height) / 2, left = (sample.input.dim(2) - width) / 2;
    if (is_mask(sample.target, sample.input))
      sample.target = cropped(sample.target, top, left, height, width);
    sample.input = cropped(sample.input, top, left, height, width);
    return sample;
  };
}

}  // namespace tandem::data
