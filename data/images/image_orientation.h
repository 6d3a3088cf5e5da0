// The camera orientation that a JPEG file records, and its effect on the pixels.
#pragma once

#include <tandem/data/images/image_file.h>

#include <string_view>

namespace tandem::data {

// Returns the value of the Exif tag Orientation (CIPA DC-008, 4.6.5), from 1 to 8. If the bytes are not a JPEG, or the
// tag is missing or damaged, it returns 1, which changes nothing. No library is used: the tag is one number at a fixed
// place, and libexif would also parse everything that hostile files may put around it.
int exif_orientation(std::string_view bytes);

// Orientations from 5 on swap rows and columns.
inline bool swaps_sides(int orientation) { return orientation >= 5; }
// Returns the window of the stored image, `height` x `width`, that makes up a window of the upright image.
ImageWindow stored_window(const ImageWindow& upright, int orientation, std::int64_t height, std::int64_t width);
// Turns a stored image, or a window of it, (3, H, W) u8 channels last, upright: (3, H, W) or (3, W, H).
Array upright(const Array& stored, int orientation);

}  // namespace tandem::data
