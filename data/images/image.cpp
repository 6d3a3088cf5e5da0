#include <tandem/data/images/image.h>

#include <tandem/data/images/image_file.h>

namespace tandem::data {

Array read_image(const std::filesystem::path& path) { return ImageFile(path).read(); }

}  // namespace tandem::data
