#include <tandem/data/image.h>
#include <tandem/data/jpeg_check.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_NO_STDIO
#define STBI_NO_HDR
#define STBI_NO_PIC
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

constexpr double most_pixels = 1 << 27;
constexpr double most_pixels_a_byte =
    1 << 14;  // of a file: deflate makes 1032 bytes of one, and eight pixels of each

}  // namespace

Array read_image(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  TANDEM_CHECK(file, "cannot open the image ", path.string());
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  TANDEM_CHECK(file.good() || file.eof(), "cannot read the image ", path.string());
  TANDEM_CHECK(bytes.size() <= std::numeric_limits<int>::max(), "the image ", path.string(),
               " is larger than 2 GiB");
  TANDEM_CHECK(!bytes.starts_with('\xff') || has_sound_huffman_tables(bytes), "the image ", path.string(),
               " cannot be decoded: a Huffman table of more than 256 codes");
  const auto* data = reinterpret_cast<const stbi_uc*>(bytes.data());
  const int size = static_cast<int>(bytes.size());
  int width = 0, height = 0, channels = 0;
  TANDEM_CHECK(stbi_info_from_memory(data, size, &width, &height, &channels), "the image ", path.string(),
               " cannot be decoded: ", stbi_failure_reason());
  // A few bytes may announce many gigabytes.
  const double pixels_announced = static_cast<double>(width) * height;
  TANDEM_CHECK(pixels_announced <= std::min(most_pixels, most_pixels_a_byte * static_cast<double>(size)),
               "the image ", path.string(), " announces ", width, " x ", height, " pixels in ", size,
               " bytes: it is damaged or made to harm");
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load_from_memory(data, size, &width, &height, &channels, 3), stbi_image_free);
  TANDEM_CHECK(pixels, "the image ", path.string(), " cannot be decoded: ", stbi_failure_reason());
  const std::span<const std::uint8_t> values(pixels.get(), static_cast<std::size_t>(width) * height * 3);
  return Array::from(values, {height, width, 3}).permute({2, 0, 1});
}

}  // namespace tandem::data
