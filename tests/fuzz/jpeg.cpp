// Fuzzes JPEG pictures, in builds with libjpeg-turbo. The target decodes the whole picture, and its middle at each
// supported size.
#include <tandem/data/images/image_file.h>

#include "fuzz.h"

using namespace tandem;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  fuzz::expect_at_most_an_error([&] {
    const data::ImageFile image(file.path());
    fuzz::expect_at_most_an_error([&] { image.read(); });
    if (!image.can_scale()) return;
    for (const int eighths : {1, 2, 4, 8}) {
      const auto height = image.scaled(image.height(), eighths), width = image.scaled(image.width(), eighths);
      const data::ImageWindow middle{height / 3, width / 3, (height + 2) / 3, (width + 2) / 3};
      fuzz::expect_at_most_an_error([&] { image.read_scaled(middle, eighths); });
    }
  });
  return 0;
}
