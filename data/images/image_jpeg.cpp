#include <tandem/data/images/image_jpeg.h>

#include <algorithm>

#ifdef TANDEM_HAS_JPEG

#include <csetjmp>
#include <cstdio>
// These headers need <cstdio> before them.
#include <jerror.h>
#include <jpeglib.h>

namespace tandem::data {

namespace {

// The upsampled colours of a pixel depend on its neighbours, so pixels at the edges of the decoded part are wrong. This
// many extra pixels are decoded on the left and on the right and then cropped.
constexpr std::int64_t margin = 2;

struct Failure {
  jpeg_error_mgr manager;  // must be the first member: libjpeg holds a pointer to it and knows no other member
  std::jmp_buf back;
  char reason[JMSG_LENGTH_MAX];
};

[[noreturn]] void give_up(j_common_ptr info) {
  auto* failure = reinterpret_cast<Failure*>(info->err);
  info->err->format_message(info, failure->reason);
  std::longjmp(failure->back, 1);
}

// libjpeg would continue after these warnings and make missing pixels grey. Here they are errors.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC: give_up(info);
    default: return;
  }
}

class Decoder {
 public:
  Decoder(const std::string& bytes, const std::string& name) : name_(name) {
    info.err = jpeg_std_error(&failure_.manager);
    failure_.manager.error_exit = give_up;
    failure_.manager.emit_message = on_message;
    step([&] {
      jpeg_create_decompress(&info);
      jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
      jpeg_read_header(&info, TRUE);
    });
  }
  ~Decoder() { jpeg_destroy_decompress(&info); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Calls libjpeg in `action`. If libjpeg fails, it jumps back here without running destructors, so `action` must own
  // nothing.
  template <class Action>
  void step(Action&& action) {
    if (setjmp(failure_.back) == 0) {
      action();
      return;
    }
    // Frees libjpeg's allocations. This may be called twice.
    jpeg_destroy_decompress(&info);
    detail::fail("the image ", name_, " cannot be decoded: ", failure_.reason);
  }

  jpeg_decompress_struct info{};

 private:
  const std::string& name_;
  Failure failure_{};
};

// Converts a row of CMYK to RGB in place; the result is shorter. The four bytes of a pixel are inverted, as Adobe's
// programs write them.
void cmyk_to_rgb(std::uint8_t* row, std::int64_t pixels) {
  for (std::int64_t x = 0; x < pixels; ++x) {
    const int light = row[4 * x + 3];
    for (int c = 0; c < 3; ++c) {
      // This rounds like Pillow.
      const int product = (255 - row[4 * x + c]) * light + 128;
      row[3 * x + c] = static_cast<std::uint8_t>(light - ((product >> 8) + product) / 256);
    }
  }
}

}  // namespace

bool has_libjpeg() { return true; }

JpegSize jpeg_size(const std::string& bytes, const std::string& name) {
  const Decoder decoder(bytes, name);
  return {decoder.info.image_height, decoder.info.image_width};
}

Array read_jpeg(const std::string& bytes, const std::string& name, const ImageWindow& window, int eighths) {
  TANDEM_CHECK(eighths == 1 || eighths == 2 || eighths == 4 || eighths == 8, "the image ", name,
               " can be decoded at 1, 2, 4 or 8 eighths of its size, not at ", eighths);
  Decoder decoder(bytes, name);
  auto& info = decoder.info;
  const std::int64_t height = ImageFile::scaled(info.image_height, eighths),
                     width = ImageFile::scaled(info.image_width, eighths);
  TANDEM_CHECK(window.top >= 0 && window.left >= 0 && window.height > 0 && window.width > 0 &&
                   window.top + window.height <= height && window.left + window.width <= width,
               "the image ", name, " of ", width, " x ", height, " pixels has no window of ", window.width, " x ",
               window.height, " at ", window.left, ", ", window.top);
  const bool is_cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  decoder.step([&] {
    info.scale_num = static_cast<unsigned>(eighths);
    info.scale_denom = 8;
    info.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&info);
  });
  TANDEM_CHECK(info.output_height == height && info.output_width == width, "the image ", name,
               " cannot be decoded: libjpeg decodes ", info.output_width, " x ", info.output_height,
               " pixels, expected ", width, " x ", height);

  // libjpeg moves the left edge to the left, to the start of a block.
  JDIMENSION left = static_cast<JDIMENSION>(std::max<std::int64_t>(0, window.left - margin));
  JDIMENSION columns = static_cast<JDIMENSION>(std::min(width, window.left + window.width + margin)) - left;
  if (columns < width) decoder.step([&] { jpeg_crop_scanline(&info, &left, &columns); });
  const auto top = static_cast<JDIMENSION>(window.top);
  if (top > 0) decoder.step([&] { jpeg_skip_scanlines(&info, top); });

  const std::int64_t stride = 3 * static_cast<std::int64_t>(columns);
  const Array decoded = Array::empty({window.height, columns, 3}, DType::u8);
  // A CMYK pixel has four bytes, so its rows are read into a separate buffer.
  const Array inks = Array::empty({is_cmyk ? 4 * static_cast<std::int64_t>(columns) : 1}, DType::u8);
  auto* const rows = decoded.data<std::uint8_t>();
  auto* const ink_row = inks.data<std::uint8_t>();
  decoder.step([&] {
    for (std::int64_t y = 0; y < window.height; ++y) {
      JSAMPROW row = is_cmyk ? ink_row : rows + y * stride;
      jpeg_read_scanlines(&info, &row, 1);
      if (!is_cmyk) continue;
      cmyk_to_rgb(ink_row, columns);
      std::copy_n(ink_row, stride, rows + y * stride);
    }
    // After the last row, libjpeg checks that the file ends correctly.
    if (info.output_scanline == info.output_height) jpeg_finish_decompress(&info);
  });
  return decoded.narrow(1, window.left - left, window.width).permute({2, 0, 1});
}

}  // namespace tandem::data

#else

namespace tandem::data {

bool has_libjpeg() { return false; }

JpegSize jpeg_size(const std::string&, const std::string& name) {
  detail::fail("cannot read the image ", name, ": this build has no libjpeg-turbo, which JPEG needs");
}

Array read_jpeg(const std::string&, const std::string& name, const ImageWindow&, int) {
  detail::fail("cannot read the image ", name, ": this build has no libjpeg-turbo, which JPEG needs");
}

}  // namespace tandem::data

#endif
