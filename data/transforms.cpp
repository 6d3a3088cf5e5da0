#include <tandem/data/transforms.h>

#include <tandem/core/ops.h>
#include <tandem/data/images/image_resample.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace tandem::data {

namespace {

bool is_mask(const Array& target, const Array& image) {
  return target.defined() && target.ndim() == 2 && target.dim(0) == image.dim(1) && target.dim(1) == image.dim(2);
}

void check_image(const char* transform, const Array& image) {
  TANDEM_CHECK(image.defined() && image.ndim() == 3, transform, ": the input must be an image (C, H, W), got ",
               image.defined() ? image.shape() : Shape{});
}

// Returns a copy of `a` (..., H, W) with each row reversed.
Array flipped(const Array& a) {
  Array result = Array::empty(a.shape(), a.dtype());
  const std::int64_t width = a.dim(-1);
  for (std::int64_t x = 0; x < width; ++x) result.select(-1, x).copy_from(a.select(-1, width - 1 - x));
  return result;
}

Array padded(const Array& a, std::int64_t padding, double value) {
  if (padding == 0) return a;
  Shape shape = a.shape();
  const int h = shape.ndim() - 2, w = h + 1;
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

// Resizes dimension `dim` of `a` to `size` with nearest-neighbour interpolation.
Array nearest(const Array& a, int dim, std::int64_t size) {
  const ResizeAxis<float> axis(a.dim(dim), size, Interpolation::nearest, false, 0);
  const Array places = Array::empty({size}, DType::i64);
  for (std::int64_t i = 0; i < size; ++i) places.data<std::int64_t>()[i] = axis.taps(i).i0;
  return ops::index_select(a, dim, places);
}

// For each output position in a row of `out`: the input positions in a row of `in` that contribute to it, and their
// weights (antialiasing as in Pillow).
struct Weights {
  std::int64_t first;
  std::vector<float> weight;
};
std::vector<Weights> triangle_weights(std::int64_t in, std::int64_t out) {
  const Triangle triangle{in, static_cast<double>(in) / static_cast<double>(out)};
  std::vector<Weights> all;
  std::vector<double> weights;
  for (std::int64_t o = 0; o < out; ++o) {
    triangle.weigh(o, weights);
    all.push_back({triangle.range(o).first, {weights.begin(), weights.end()}});
  }
  return all;
}

Array bilinear(const Array& image, std::int64_t height, std::int64_t width) {
  TANDEM_CHECK(image.dtype() == DType::u8 || image.dtype() == DType::f32,
               "resize: bilinear takes u8 or f32 images, got ", image.dtype());
  const Array pixels = image.permute({1, 2, 0}).to(DType::f32).contiguous();
  const std::int64_t channels = image.dim(0), row = image.dim(2) * channels;
  const Array result = Array::empty({height, width, channels}, DType::f32);
  const float* from = pixels.data<float>();
  float* to = result.data<float>();
  const auto down = triangle_weights(image.dim(1), height), along = triangle_weights(image.dim(2), width);
  std::vector<float> blended(static_cast<std::size_t>(row));
  for (const Weights& h : down) {
    std::fill(blended.begin(), blended.end(), 0.0f);
    const float* source = from + h.first * row;
    for (const float weight : h.weight) {
      for (std::int64_t i = 0; i < row; ++i) blended[static_cast<std::size_t>(i)] += weight * source[i];
      source += row;
    }
    for (const Weights& w : along) {
      for (std::int64_t c = 0; c < channels; ++c) {
        const float* pixel = blended.data() + w.first * channels + c;
        float sum = 0;
        for (const float weight : w.weight) {
          sum += weight * *pixel;
          pixel += channels;
        }
        *to++ = sum;
      }
    }
  }
  const Array resized = result.permute({2, 0, 1});
  if (image.dtype() == DType::f32) return resized;
  return ops::map(functors::Round{}, resized).to(DType::u8);
}

Sample resized(Sample sample, std::int64_t height, std::int64_t width, Interpolation interpolation) {
  if (is_mask(sample.target, sample.input)) sample.target = nearest(nearest(sample.target, -2, height), -1, width);
  sample.input = interpolation == Interpolation::nearest ? nearest(nearest(sample.input, -2, height), -1, width)
                                                         : bilinear(sample.input, height, width);
  return sample;
}

void check_has_pixels(const Array& image) {
  check_image("resize", image);
  TANDEM_CHECK(image.numel() > 0, "resize: the image ", image.shape(), " has no pixels");
}

void check_size(const char* transform, const Array& image, std::int64_t height, std::int64_t width) {
  TANDEM_CHECK(image.dim(1) >= height && image.dim(2) >= width, transform, ": the image is ", image.dim(1), " x ",
               image.dim(2), ", smaller than the requested ", height, " x ", width);
}

}  // namespace

Transform to_float() {
  return [](Sample sample, SampleRandom&) {
    const bool bytes = sample.input.dtype() == DType::u8;
    sample.input = sample.input.to(DType::f32);
    // torchvision divides by 255. Multiplying by 1 / 255 would give different last bits.
    if (bytes) sample.input = ops::zip(functors::Div{}, sample.input, ops::scalar(255));
    return sample;
  };
}

Transform normalize(std::vector<float> mean, std::vector<float> std) {
  TANDEM_CHECK(mean.size() == std.size() && !mean.empty(), "normalize: got ", mean.size(), " means and ", std.size(),
               " deviations");
  for (const float s : std) TANDEM_CHECK(s > 0, "normalize: a deviation must be above 0, got ", s);
  const auto channels = static_cast<std::int64_t>(mean.size());
  const Array means = Array::from(mean, {channels, 1, 1}), deviations = Array::from(std, {channels, 1, 1});
  return [=](Sample sample, SampleRandom&) {
    check_image("normalize", sample.input);
    TANDEM_CHECK(sample.input.dim(0) == channels && sample.input.dtype() == DType::f32, "normalize: expected f32 with ",
                 channels, " channels, got ", sample.input.shape(), ' ', sample.input.dtype());
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
  TANDEM_CHECK(height > 0 && width > 0 && padding >= 0 && padding <= most_padding, "random_crop: the size ", height,
               " x ", width, " or the padding ", padding, " is out of range");
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

Transform pad(std::int64_t padding, double value, double mask_fill) {
  TANDEM_CHECK(padding >= 0, "pad: padding must not be negative, got ", padding);
  return [=](Sample sample, SampleRandom&) {
    check_image("pad", sample.input);
    if (is_mask(sample.target, sample.input)) sample.target = padded(sample.target, padding, mask_fill);
    sample.input = padded(sample.input, padding, value);
    return sample;
  };
}

Transform resize(std::int64_t height, std::int64_t width, Interpolation interpolation) {
  TANDEM_CHECK(height > 0 && width > 0, "resize: the size must be positive, got ", height, " x ", width);
  return [=](Sample sample, SampleRandom&) {
    check_has_pixels(sample.input);
    return resized(std::move(sample), height, width, interpolation);
  };
}

Transform resize(std::int64_t short_side, Interpolation interpolation) {
  TANDEM_CHECK(short_side > 0, "resize: the short side must be positive, got ", short_side);
  return [=](Sample sample, SampleRandom&) {
    check_has_pixels(sample.input);
    const std::int64_t height = sample.input.dim(1), width = sample.input.dim(2);
    const std::int64_t long_side = short_side * std::max(height, width) / std::min(height, width);
    return height <= width ? resized(std::move(sample), short_side, long_side, interpolation)
                           : resized(std::move(sample), long_side, short_side, interpolation);
  };
}

Transform center_crop(std::int64_t height, std::int64_t width) {
  TANDEM_CHECK(height > 0 && width > 0, "center_crop: the size must be positive, got ", height, " x ", width);
  return [=](Sample sample, SampleRandom&) {
    check_image("center_crop", sample.input);
    check_size("center_crop", sample.input, height, width);
    const auto top = (sample.input.dim(1) - height) / 2, left = (sample.input.dim(2) - width) / 2;
    if (is_mask(sample.target, sample.input)) sample.target = cropped(sample.target, top, left, height, width);
    sample.input = cropped(sample.input, top, left, height, width);
    return sample;
  };
}

}  // namespace tandem::data
