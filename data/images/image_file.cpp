#include <tandem/data/images/image_file.h>

#include <tandem/core/io/input_file.h>
#include <tandem/data/images/image_jpeg.h>
#include <tandem/data/images/image_orientation.h>
#include <tandem/data/images/jpeg_check.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_NO_STDIO
#define STBI_ONLY_BMP
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_ONLY_PNM
#define STBI_NO_LINEAR
#define STBI_FAILURE_USERMSG
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

namespace tandem::data {

namespace {

// The largest images that are allocated, in total and per byte of the file. Without these limits, a header of a few
// bytes could request any amount of memory. A pixel takes three bytes. Deflate expands a byte to at most 1032 bytes,
// and each of these holds at most eight pixels.
constexpr std::int64_t most_pixels = std::int64_t{1} << 28, most_pixels_a_byte = 1 << 14;

// The largest number of scans that are decoded, and of pixels in all scans together. A scan of a few hundred bytes can
// cover every pixel, and a file can have thousands of scans. Images usually have ten scans, whatever their size; 500 is
// the limit in libjpeg-turbo's own tests.
constexpr std::int64_t most_scans = 500, most_scanned_pixels = std::int64_t{1} << 32;

const stbi_uc* stb_bytes(const std::string& bytes) { return reinterpret_cast<const stbi_uc*>(bytes.data()); }

// stb_image accepts a truncated JPEG and fills the missing part. Here that is an Error. After the start of the last
// scan, the bytes ff d9 can only be the end marker.
void check_jpeg_end(const std::string& bytes, const std::string& name) {
  const auto scan = bytes.rfind("\xff\xda");
  TANDEM_CHECK(scan != std::string::npos && bytes.find("\xff\xd9", scan) != std::string::npos, "the image ", name,
               " cannot be decoded: the file ends before the picture is complete");
}

Array read_by_stb(const std::string& bytes, const std::string& name) {
  int width = 0, height = 0, channels = 0;
  const std::string sound = with_huffman_tables(bytes);
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load_from_memory(stb_bytes(sound), static_cast<int>(sound.size()), &width, &height, &channels, 3),
      stbi_image_free);
  TANDEM_CHECK(pixels, "the image ", name, " cannot be decoded: ", stbi_failure_reason());
  if (is_jpeg(bytes)) check_jpeg_end(bytes, name);
  const std::span<const std::uint8_t> values(pixels.get(), static_cast<std::size_t>(width) * height * 3);
  return Array::from(values, {height, width, 3}).permute({2, 0, 1});
}

// Why stb_image can't read the header. For formats that this library doesn't know, stb_image only says "unknown".
std::string reason_of_stb(const std::string& bytes) {
  const std::string reason = stbi_failure_reason();
  if (reason.find("not of any known type") == std::string::npos) return reason;
  using namespace std::string_view_literals;
  const std::string_view start = std::string_view(bytes).substr(0, 16);
  const std::string_view kind = start.starts_with("RIFF") && start.substr(8).starts_with("WEBP") ? "WebP"
                                : start.starts_with("II*\0"sv) || start.starts_with("MM\0*"sv)   ? "TIFF"
                                : start.starts_with("GIF8")                                      ? "GIF"
                                : start.substr(std::min<std::size_t>(4, start.size())).starts_with("ftyp")
                                    ? "HEIC, AVIF or a film"
                                    : "";
  return (kind.empty() ? "it is not of any known type" : "it is " + std::string(kind)) +
         "; JPEG, PNG, BMP and PNM are read";
}

}  // namespace

std::string read_whole_file(const std::filesystem::path& path, const std::string& kind) {
  const InputFile file(path, kind);
  constexpr std::uint64_t longest = std::numeric_limits<int>::max() - 4096;  // stb_image uses int for sizes
  file.check(file.size() <= longest, "is larger than 2 GiB");
  return file.read(file.size(), 0);
}

ImageFile::ImageFile(std::filesystem::path path, Orientation orientation)
    : path_(std::move(path)), bytes_(read_whole_file(path_, "the image")) {
  TANDEM_CHECK(!bytes_.empty(), "the image ", path_.string(), " cannot be decoded: it is empty");
  TANDEM_CHECK(!bytes_.starts_with('\xff') || has_sound_huffman_tables(bytes_), "the image ", path_.string(),
               " cannot be decoded: a Huffman table has more than 256 codes");
  is_for_libjpeg_ = has_libjpeg() && is_jpeg(bytes_);
  if (is_for_libjpeg_) {
    const JpegSize size = jpeg_size(bytes_, path_.string());
    height_ = size.height;
    width_ = size.width;
  } else {
    int width = 0, height = 0, channels = 0;
    TANDEM_CHECK(
        stbi_info_from_memory(stb_bytes(bytes_), static_cast<int>(bytes_.size()), &width, &height, &channels) == 1,
        "the image ", path_.string(), " cannot be decoded: ", reason_of_stb(bytes_));
    height_ = height;
    width_ = width;
  }
  const std::int64_t most = std::min(most_pixels, static_cast<std::int64_t>(bytes_.size()) * most_pixels_a_byte);
  TANDEM_CHECK(height_ > 0 && width_ > 0 && height_ <= most / width_, "the image ", path_.string(),
               " cannot be decoded: it announces ", width_, " x ", height_, " pixels in ", bytes_.size(),
               " bytes, expected 1 to ", most, " of them: it is damaged or malicious");
  const std::int64_t scans = bytes_.starts_with('\xff') ? count_scans(bytes_) : 1;
  const std::int64_t allowed = std::min(most_scans, most_scanned_pixels / (height_ * width_));
  TANDEM_CHECK(scans <= allowed, "the image ", path_.string(), " cannot be decoded: it has ", scans, " scans of ",
               width_, " x ", height_, " pixels, expected at most ", allowed, " scans: it is malicious");
  if (orientation == Orientation::upright) orientation_ = exif_orientation(bytes_);
  if (swaps_sides(orientation_)) std::swap(height_, width_);
}

Array ImageFile::read() const { return read({0, 0, height_, width_}); }

Array ImageFile::read(const ImageWindow& window) const {
  TANDEM_CHECK(window.top >= 0 && window.left >= 0 && window.height > 0 && window.width > 0 &&
                   window.top + window.height <= height_ && window.left + window.width <= width_,
               "the image ", path_.string(), " of ", width_, " x ", height_, " pixels has no window of ", window.width,
               " x ", window.height, " at ", window.left, ", ", window.top);
  if (orientation_ == 1) return read_stored(window);
  const bool swaps = swaps_sides(orientation_);
  return upright(read_stored(stored_window(window, orientation_, swaps ? width_ : height_, swaps ? height_ : width_)),
                 orientation_);
}

Array ImageFile::read_stored(const ImageWindow& window) const {
  if (is_for_libjpeg_) return read_jpeg(bytes_, path_.string(), window, 8);
  return read_by_stb(bytes_, path_.string()).narrow(1, window.top, window.height).narrow(2, window.left, window.width);
}

Array ImageFile::read_scaled(const ImageWindow& window, int eighths) const {
  TANDEM_CHECK(can_scale(), "the image ", path_.string(), " can't be decoded at another size: it is not a JPEG",
               has_libjpeg() ? ", or must be rotated" : ", or this build has no libjpeg-turbo");
  return read_jpeg(bytes_, path_.string(), window, eighths);
}

}  // namespace tandem::data
