// How a camera was held: the orientation that a JPEG file tells, and what follows for its pixels.
#pragma once

#include <tandem/data/images/image_file.h>

#include <string_view>

namespace tandem::data {

// The value of the tag Orientation of Exif (CIPA DC-008, 4.6.5), from 1 to 8; 1, which changes nothing, where the bytes
// are no JPEG, or say none or a damaged one. No library reads it: it is one number at a fixed place, and libexif would
// also read all that hostile files may have around it.
int exif_orientation(std::string_view bytes);

// Orientations from 5 on exchange rows and columns.
inline bool swaps_sides(int orientation) { return orientation >= 5; }
// Which pixels of the stored picture, `height` x `width`, make a window of the upright one.
ImageWindow stored_window(const ImageWindow& upright, int orientation, std::int64_t height, std::int64_t width);
// A stored picture, or a window of one, (3, H, W) u8 pixel by pixel, upright: (3, H, W) or (3, W, H).
Array upright(const Array& stored, int orientation);

}  // namespace tandem::data
