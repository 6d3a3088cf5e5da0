// What stb_image takes on trust in a JPEG file, and then reads or (before 2.28) writes behind the end of its tables.
#pragma once

#include <string>
#include <string_view>

namespace tandem::data {

// False when a Huffman table of the file announces more than the 256 codes that there can be (ITU-T T.81, B.2.4.2).
bool has_sound_huffman_tables(std::string_view jpeg);

// The same picture, with a table for each of the numbers that a scan can name: one that the file does not define would
// be whatever lies in memory. Those of the file follow and take their place. What is no JPEG file stays as it is.
std::string with_huffman_tables(std::string_view bytes);

}  // namespace tandem::data
