#include <tandem/data/segmentation/segmentation_picture.h>

#include <algorithm>
#include <cmath>

namespace tandem::data {

namespace {

std::array<Colour, 256> make_colours() {
  std::array<Colour, 256> colours{};
  for (unsigned label = 0; label < 256; ++label)
    for (unsigned bit = 0; bit < 8; ++bit)
      colours[label][bit % 3] |= static_cast<std::uint8_t>(((label >> bit) & 1U) << (7 - bit / 3));
  return colours;
}

std::uint8_t to_byte(double value) { return static_cast<std::uint8_t>(std::clamp(std::lround(value), 0L, 255L)); }

// Makes a picture (3, H, W) u8 for a mask. Calls write(pixel, label, number) for each pixel: `pixel` points to its
// three bytes in the result, and `number` counts the pixels row by row.
template <class Write>
Array painted(const Array& mask, Write&& write) {
  TANDEM_CHECK(mask.defined() && mask.ndim() == 2 && (mask.dtype() == DType::u8 || mask.dtype() == DType::i64),
               "a mask must be (H, W) u8 or i64, got ", mask.defined() ? mask.shape() : Shape{}, ' ', mask.dtype());
  const Array result = Array::empty({mask.dim(0), mask.dim(1), 3}, DType::u8);
  auto* pixel = result.data<std::uint8_t>();
  std::size_t number = 0;
  for (const std::int64_t label : mask.to(Device{}).to_vector<std::int64_t>()) {
    TANDEM_CHECK(label >= 0 && label < 256, "a mask holds ", label, ", which has no colour: expected 0 to 255");
    write(pixel, static_cast<std::size_t>(label), number++);
    pixel += 3;
  }
  return result.permute({2, 0, 1});
}

}  // namespace

const std::array<Colour, 256>& voc_colours() {
  static const std::array<Colour, 256> colours = make_colours();
  return colours;
}

Array coloured(const Array& mask) {
  return painted(mask, [](std::uint8_t* pixel, std::size_t label, std::size_t) {
    std::copy_n(voc_colours()[label].begin(), 3, pixel);
  });
}

Array overlay(const Array& picture, const Array& mask, double opacity) {
  TANDEM_CHECK(picture.defined() && picture.ndim() == 3 && picture.dim(0) == 3 && picture.dtype() == DType::u8 &&
                   mask.defined() && mask.ndim() == 2 && picture.dim(1) == mask.dim(0) && picture.dim(2) == mask.dim(1),
               "overlay: expected a picture (3, H, W) u8 and a mask (H, W), got ",
               picture.defined() ? picture.shape() : Shape{}, ' ', picture.dtype(), " and ",
               mask.defined() ? mask.shape() : Shape{});
  TANDEM_CHECK(opacity >= 0 && opacity <= 1, "overlay: expected an opacity of 0 to 1, got ", opacity);
  const Array source = picture.to(Device{}).permute({1, 2, 0}).contiguous();
  const auto* pixels = source.data<std::uint8_t>();
  return painted(mask, [&](std::uint8_t* pixel, std::size_t label, std::size_t number) {
    const double share = label == 0 ? 0 : opacity;
    for (std::size_t c = 0; c < 3; ++c)
      pixel[c] = to_byte(share * voc_colours()[label][c] + (1 - share) * pixels[3 * number + c]);
  });
}

Array denormalized(const Array& image, const std::array<float, 3>& mean, const std::array<float, 3>& std) {
  TANDEM_CHECK(image.defined() && image.ndim() == 3 && image.dim(0) == 3 && image.dtype() == DType::f32,
               "denormalized: expected (3, H, W) f32, got ", image.defined() ? image.shape() : Shape{}, ' ',
               image.dtype());
  const Array source = image.to(Device{}).permute({1, 2, 0}).contiguous();
  const Array result = Array::empty(source.shape(), DType::u8);
  const auto* values = source.data<float>();
  auto* bytes = result.data<std::uint8_t>();
  for (std::int64_t i = 0; i < source.numel(); ++i) {
    const auto c = static_cast<std::size_t>(i % 3);
    bytes[i] = to_byte(255.0 * (values[i] * std[c] + mean[c]));
  }
  return result.permute({2, 0, 1});
}

}  // namespace tandem::data
