#include <tandem/data/images/image_png.h>

#include <tandem/core/io/atomic_file.h>
#include <tandem/data/images/image_file.h>

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

namespace tandem::data {

namespace {

// The largest image that is allocated. Without a limit, a header of a few bytes could request any amount of memory.
constexpr std::int64_t most_mask_pixels = std::int64_t{1} << 28;

// libpng's state while it reads `source` or writes `written`. If libpng fails, it jumps back into step().
struct Png {
  png_structp png = nullptr;
  png_infop info = nullptr;
  const std::string* source = nullptr;
  std::size_t position = 0;
  std::string written;
  char reason[256] = {};

  Png() = default;
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;
  ~Png() {
    if (source != nullptr) png_destroy_read_struct(&png, &info, nullptr);
    else png_destroy_write_struct(&png, &info);
  }

  // Runs `action`. Returns whether it completed; if not, `reason` has the error. The jump out of libpng runs no
  // destructors, so `action` must own nothing.
  template <class Action>
  bool step(Action&& action) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    action();
    return true;
  }
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* self = static_cast<Png*>(png_get_error_ptr(png));
  std::snprintf(self->reason, sizeof self->reason, "%s", message);
  png_longjmp(png, 1);
}

// libpng warns about colour profiles, times and similar data. None of them affects the image.
void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep data, std::size_t size) {
  auto* self = static_cast<Png*>(png_get_io_ptr(png));
  if (size > self->source->size() - self->position) png_error(png, "the file ends before the picture is complete");
  std::memcpy(data, self->source->data() + self->position, size);
  self->position += size;
}

void on_write(png_structp png, png_bytep data, std::size_t size) {
  try {
    static_cast<Png*>(png_get_io_ptr(png))->written.append(reinterpret_cast<const char*>(data), size);
  } catch (...) {
    png_error(png, "out of memory");
  }
}

void on_flush(png_structp) {}

void open_for_reading(Png& file, const std::string& bytes, const std::string& name) {
  const auto fail = [&](const char* reason) { detail::fail("the mask ", name, " cannot be decoded: ", reason); };
  if (bytes.empty()) fail("it is empty");
  if (png_sig_cmp(reinterpret_cast<png_const_bytep>(bytes.data()), 0, std::min<std::size_t>(8, bytes.size())) != 0)
    fail("it is not a PNG file");
  file.source = &bytes;
  file.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &file, on_error, on_warning);
  file.info = file.png != nullptr ? png_create_info_struct(file.png) : nullptr;
  if (file.info == nullptr) fail("out of memory");
  png_set_read_fn(file.png, &file, on_read);
  if (!file.step([&] { png_read_info(file.png, file.info); })) fail(file.reason);
}

void check_indices(const Array& indices, std::size_t colours) {
  TANDEM_CHECK(indices.defined() && indices.ndim() == 2 && indices.numel() > 0 && indices.device().is_cpu() &&
                   (indices.dtype() == DType::u8 || indices.dtype() == DType::i64),
               "encode_png: a mask must be (H, W) u8 or i64 on the CPU, got ",
               indices.defined() ? indices.shape() : Shape{}, ' ', indices.dtype());
  TANDEM_CHECK(colours >= 1 && colours <= 256, "encode_png: a palette must have 1 to 256 colours, got ", colours);
}

// Encodes an image whose pixels are in `bytes`, row by row from the top. A pixel has 1 byte with a palette, otherwise
// 3.
std::string encode(const std::uint8_t* bytes, std::int64_t height, std::int64_t width,
                   std::span<const Colour> palette) {
  const bool is_indexed = !palette.empty();
  Png file;
  file.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &file, on_error, on_warning);
  file.info = file.png != nullptr ? png_create_info_struct(file.png) : nullptr;
  TANDEM_CHECK(file.info != nullptr, "encode_png: out of memory");
  png_set_write_fn(file.png, &file, on_write, on_flush);
  std::array<png_color, 256> colours{};
  for (std::size_t i = 0; i < palette.size(); ++i) colours[i] = {palette[i][0], palette[i][1], palette[i][2]};
  const bool is_done = file.step([&] {
    png_set_IHDR(file.png, file.info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), 8,
                 is_indexed ? PNG_COLOR_TYPE_PALETTE : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (is_indexed) png_set_PLTE(file.png, file.info, colours.data(), static_cast<int>(palette.size()));
    png_write_info(file.png, file.info);
    for (std::int64_t y = 0; y < height; ++y) png_write_row(file.png, bytes + y * width * (is_indexed ? 1 : 3));
    png_write_end(file.png, file.info);
  });
  TANDEM_CHECK(is_done, "encode_png: ", file.reason);
  return std::move(file.written);
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  AtomicFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

}  // namespace

MaskFile::MaskFile(std::filesystem::path path) : path_(std::move(path)), bytes_(read_whole_file(path_, "the mask")) {
  Png file;
  open_for_reading(file, bytes_, path_.string());
  height_ = png_get_image_height(file.png, file.info);
  width_ = png_get_image_width(file.png, file.info);
  const int type = png_get_color_type(file.png, file.info), bits = png_get_bit_depth(file.png, file.info);
  TANDEM_CHECK(type == PNG_COLOR_TYPE_PALETTE || (type == PNG_COLOR_TYPE_GRAY && bits == 8), "the mask ",
               path_.string(), " is a PNG of colour type ", type, " with ", bits,
               " bits, expected a palette (type 3) or grey (type 0) with 8 bits, whose values are classes");
  TANDEM_CHECK(height_ <= most_mask_pixels / width_, "the mask ", path_.string(),
               " cannot be decoded: it claims to be ", width_, " x ", height_, " pixels large, expected at most ",
               most_mask_pixels, " pixels");
}

Array MaskFile::read() const { return read(height_); }

Array MaskFile::read(std::int64_t rows) const {
  TANDEM_CHECK(rows > 0 && rows <= height_, "the mask ", path_.string(), " has ", height_, " rows, asked for ", rows);
  Png file;
  open_for_reading(file, bytes_, path_.string());
  const bool is_interlaced = png_get_interlace_type(file.png, file.info) != PNG_INTERLACE_NONE;
  const std::int64_t decoded_rows = is_interlaced ? height_ : rows;
  const Array mask = Array::empty({decoded_rows, width_}, DType::u8);
  auto* const values = mask.data<std::uint8_t>();
  const bool is_done = file.step([&] {
    // Each decoded pixel takes one byte, regardless of its bits in the file.
    png_set_packing(file.png);
    const int passes = png_set_interlace_handling(file.png);
    png_read_update_info(file.png, file.info);
    for (int pass = 0; pass < passes; ++pass)
      for (std::int64_t y = 0; y < decoded_rows; ++y) png_read_row(file.png, values + y * width_, nullptr);
    if (decoded_rows == height_) png_read_end(file.png, nullptr);
  });
  TANDEM_CHECK(is_done, "the mask ", path_.string(), " cannot be decoded: ", file.reason);
  return is_interlaced ? mask.narrow(0, 0, rows) : mask;
}

std::string encode_png(const Array& picture) {
  TANDEM_CHECK(picture.defined() && picture.ndim() == 3 && picture.dim(0) == 3 && picture.numel() > 0 &&
                   picture.dtype() == DType::u8 && picture.device().is_cpu(),
               "encode_png: a picture must be (3, H, W) u8 on the CPU, got ",
               picture.defined() ? picture.shape() : Shape{}, ' ', picture.dtype());
  const Array pixels = picture.permute({1, 2, 0}).contiguous();
  return encode(pixels.data<std::uint8_t>(), picture.dim(1), picture.dim(2), {});
}

std::string encode_png(const Array& indices, std::span<const Colour> palette) {
  check_indices(indices, palette.size());
  const Array source = indices.contiguous();
  const bool is_small = source.dtype() == DType::u8;
  const Array bytes = is_small ? source : Array::empty(source.shape(), DType::u8);
  auto* const values = bytes.data<std::uint8_t>();
  const auto* const large = is_small ? nullptr : source.data<std::int64_t>();
  for (std::int64_t i = 0; i < source.numel(); ++i) {
    const std::int64_t index = is_small ? values[i] : large[i];
    TANDEM_CHECK(index >= 0 && index < static_cast<std::int64_t>(palette.size()), "encode_png: the mask holds ", index,
                 ", which has no colour in a palette of ", palette.size());
    if (!is_small) values[i] = static_cast<std::uint8_t>(index);
  }
  return encode(values, indices.dim(0), indices.dim(1), palette);
}

void write_png(const std::filesystem::path& path, const Array& picture) { write_file(path, encode_png(picture)); }

void write_png(const std::filesystem::path& path, const Array& indices, std::span<const Colour> palette) {
  write_file(path, encode_png(indices, palette));
}

}  // namespace tandem::data
