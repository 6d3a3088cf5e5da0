#include <tandem/data/image.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <memory>

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_NO_STDIO
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STBI_FAILURE_USERMSG
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

namespace tandem::data {

Array read_image(const std::filesystem::path& path) {
  TANDEM_CHECK(!std::filesystem::is_directory(path), "the image ", path.string(), " is a folder");
  std::ifstream file(path, std::ios::binary);
  TANDEM_CHECK(file, "cannot open the image ", path.string());
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  TANDEM_CHECK(file.good() || file.eof(), "cannot read the image ", path.string());
  TANDEM_CHECK(bytes.size() <= std::numeric_limits<int>::max(), "the image ", path.string(),
               " is larger than 2 GiB");
  int width = 0, height = 0, channels = 0;
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load_from_memory(reinterpret_cast<const stbi_uc*>(bytes.data()), static_cast<int>(bytes.size()),
                            &width, &height, &channels, 3),
      stbi_image_free);
  TANDEM_CHECK(pixels, "the image ", path.string(), " cannot be decoded (", stbi_failure_reason(),
               "): it is damaged, or of a kind that can't be read; replace or remove it");
  const std::span<const std::uint8_t> values(pixels.get(), static_cast<std::size_t>(width) * height * 3);
  return Array::from(values, {height, width, 3}).permute({2, 0, 1});
}

}  // namespace tandem::data
