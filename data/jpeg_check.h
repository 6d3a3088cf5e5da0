// What stb_image before 2.28 takes on trust in a JPEG file, and then writes behind the end of its tables.
#pragma once

#include <string_view>

namespace tandem::data {

// False when a Huffman table of the file announces more than the 256 codes that there can be (ITU-T T.81, B.2.4.2).
bool has_sound_huffman_tables(std::string_view jpeg);

}  // namespace tandem::data
