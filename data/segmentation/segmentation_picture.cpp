#include <tandem/data/images/image_file.h>
#include <tandem/data/segmentation/segmentation.h>
#include <tandem/data/segmentation/segmentation_picture.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wold-style-cast"
#include <stb/stb_easy_font.h>
#pragma GCC diagnostic pop

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

void check_picture(const char* function, const Array& picture) {
  TANDEM_CHECK(picture.defined() && picture.ndim() == 3 && picture.dim(0) == 3 && picture.dtype() == DType::u8,
               function, ": expected a picture (3, H, W) u8, got ", picture.defined() ? picture.shape() : Shape{}, ' ',
               picture.defined() ? picture.dtype() : DType::u8);
}

// The pixels of an image, (H, W, 3) u8 on the CPU in row-major order.
Array pixels_of(const Array& picture) { return picture.to(Device{}).permute({1, 2, 0}).contiguous(); }

// The labels of a mask, (H, W) u8 on the CPU in row-major order.
Array labels_of(const Array& mask) {
  TANDEM_CHECK(mask.defined() && mask.ndim() == 2 && (mask.dtype() == DType::u8 || mask.dtype() == DType::i64),
               "a mask must be (H, W) u8 or i64, got ", mask.defined() ? mask.shape() : Shape{}, ' ', mask.dtype());
  const Array labels = mask.to(Device{}).contiguous();
  if (labels.dtype() == DType::u8) return labels;
  const Array bytes = Array::empty(labels.shape(), DType::u8);
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    const std::int64_t label = labels.data<std::int64_t>()[i];
    TANDEM_CHECK(label >= 0 && label < 256, "a mask holds ", label, ", which has no colour: expected 0 to 255");
    bytes.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(label);
  }
  return bytes;
}

// Copies pixels (h, w, 3) into a larger array, at the top and `left` pixels from the left.
void paste(const Array& pixels, const Array& into, std::int64_t left) {
  for (std::int64_t y = 0; y < pixels.dim(0); ++y)
    std::copy_n(pixels.data<std::uint8_t>() + y * pixels.dim(1) * 3, pixels.dim(1) * 3,
                into.data<std::uint8_t>() + (y * into.dim(1) + left) * 3);
}

void fill(const Array& pixels, const ImageWindow& window, const Colour& colour) {
  for (std::int64_t y = window.top; y < window.top + window.height; ++y)
    for (std::int64_t x = window.left; x < window.left + window.width; ++x)
      std::ranges::copy(colour, pixels.data<std::uint8_t>() + (y * pixels.dim(1) + x) * 3);
}

constexpr std::int64_t text_height = 12;  // height of a line in stb_easy_font

// stb_easy_font supports only ASCII.
std::string printable(std::string text) {
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

std::int64_t text_width(const std::string& text) { return stb_easy_font_width(printable(text).data()); }

// The rectangles that draw a line of text.
std::vector<ImageWindow> letters(const std::string& text) {
  struct Corner {
    float x, y, z;
    unsigned char colour[4];
  };
  constexpr std::size_t most = 64;  // rectangles per letter; a letter of the font has at most 20
  std::vector<Corner> corners(4 * most * (text.size() + 1));
  const int count = stb_easy_font_print(0, 0, printable(text).data(), nullptr, corners.data(),
                                        static_cast<int>(corners.size() * sizeof(Corner)));
  std::vector<ImageWindow> parts;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const Corner &first = corners[4 * i], &last = corners[4 * i + 2];
    parts.push_back({static_cast<std::int64_t>(first.y), static_cast<std::int64_t>(first.x),
                     static_cast<std::int64_t>(last.y - first.y), static_cast<std::int64_t>(last.x - first.x)});
  }
  return parts;
}

// Makes an image (3, H, W) u8 for a mask. Calls write(pixel, label, number) for each pixel: `pixel` points to its three
// bytes in the result, and `number` counts the pixels in row-major order.
template <class Write>
Array painted(const Array& mask, Write&& write) {
  const Array labels = labels_of(mask);
  const Array result = Array::empty({mask.dim(0), mask.dim(1), 3}, DType::u8);
  auto* pixel = result.data<std::uint8_t>();
  for (std::int64_t i = 0; i < labels.numel(); ++i, pixel += 3)
    write(pixel, labels.data<std::uint8_t>()[i], static_cast<std::size_t>(i));
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
  const Array source = pixels_of(picture);
  const auto* pixels = source.data<std::uint8_t>();
  return painted(mask, [&](std::uint8_t* pixel, std::size_t label, std::size_t number) {
    const double share = label == 0 ? 0 : opacity;
    for (std::size_t c = 0; c < 3; ++c)
      pixel[c] = to_byte(share * voc_colours()[label][c] + (1 - share) * pixels[3 * number + c]);
  });
}

Array outlined(const Array& picture, const Array& mask) {
  check_picture("outlined", picture);
  TANDEM_CHECK(mask.defined() && mask.ndim() == 2 && mask.dim(0) == picture.dim(1) && mask.dim(1) == picture.dim(2),
               "outlined: expected a picture and a mask of the same size, got ", picture.shape(), " and ",
               mask.defined() ? mask.shape() : Shape{});
  const Array all = labels_of(mask), source = pixels_of(picture);
  const auto* labels = all.data<std::uint8_t>();
  const auto* pixels = source.data<std::uint8_t>();
  const std::int64_t height = mask.dim(0), width = mask.dim(1);
  const std::int64_t thickness = std::max<std::int64_t>(1, std::min(height, width) / 250);
  return painted(mask, [&](std::uint8_t* pixel, std::size_t label, std::size_t number) {
    const auto at = static_cast<std::int64_t>(number);
    const std::int64_t y = at / width, x = at % width;
    const auto differs = [&](bool is_inside, std::int64_t step) { return is_inside && labels[at + step] != label; };
    const bool is_edge =
        label != 0 &&
        (differs(y >= thickness, -thickness * width) || differs(y + thickness < height, thickness * width) ||
         differs(x >= thickness, -thickness) || differs(x + thickness < width, thickness));
    std::copy_n(is_edge ? voc_colours()[label].data() : pixels + 3 * number, 3, pixel);
  });
}

Array with_legend(const Array& picture, const Array& mask, const std::vector<std::string>& names) {
  check_picture("with_legend", picture);
  const Array labels = labels_of(mask);
  std::array<std::int64_t, 256> counts{};
  for (std::int64_t i = 0; i < labels.numel(); ++i) ++counts[labels.data<std::uint8_t>()[i]];
  std::vector<std::size_t> found;
  for (std::size_t label = 1; label < counts.size(); ++label)
    if (counts[label] > 0) found.push_back(label);
  std::ranges::stable_sort(found, std::greater(), [&](std::size_t label) { return counts[label]; });

  // A line is a twentieth of the image high, but each pixel of the font takes at least 2 x 2 pixels.
  const std::int64_t scale = std::max<std::int64_t>(2, picture.dim(1) / (20 * text_height));
  const std::int64_t line = scale * text_height, margin = 2 * scale;
  std::vector<std::string> texts;
  std::int64_t width = picture.dim(2);
  for (const std::size_t label : found) {
    const std::string name = label == void_label ? "void" : "class " + std::to_string(label);
    const double share = static_cast<double>(counts[label]) / static_cast<double>(labels.numel());
    texts.push_back(fmt::format("{} {:.1f} %", label < names.size() ? names[label] : name, 100 * share));
    width = std::max(width, 3 * margin + line + scale * text_width(texts.back()));
  }
  const std::int64_t top = picture.dim(1), height = top + line * static_cast<std::int64_t>(found.size());
  Array result = Array::empty({height, width, 3}, DType::u8);
  result.fill(255);
  const Array source = pixels_of(picture);
  paste(source, result, 0);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::int64_t y = top + line * static_cast<std::int64_t>(i);
    const std::int64_t inset = scale;
    fill(result, {y + inset, margin, line - 2 * inset, line}, voc_colours()[found[i]]);
    for (const ImageWindow& part : letters(texts[i]))
      fill(result,
           {y + 2 * scale + scale * part.top, 2 * margin + line + scale * part.left, scale * part.height,
            scale * part.width},
           {0, 0, 0});
  }
  return result.permute({2, 0, 1});
}

Array side_by_side(const std::vector<Array>& pictures) {
  TANDEM_CHECK(!pictures.empty(), "side_by_side: expected at least one picture, got none");
  constexpr std::int64_t gap = 4;
  std::int64_t width = -gap, height = 0;
  for (const Array& picture : pictures) {
    check_picture("side_by_side", picture);
    width += picture.dim(2) + gap;
    height = std::max(height, picture.dim(1));
  }
  Array result = Array::empty({height, width, 3}, DType::u8);
  result.fill(255);
  std::int64_t left = 0;
  for (const Array& picture : pictures) {
    paste(pixels_of(picture), result, left);
    left += picture.dim(2) + gap;
  }
  return result.permute({2, 0, 1});
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
