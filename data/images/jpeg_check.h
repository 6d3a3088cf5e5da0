// Checks of JPEG files that decoders do not make. Without those of the tables, stb_image reads, and before version 2.28
// even writes, beyond the end of its tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::data {

// Whether no Huffman table of the file announces more than the 256 codes that are possible (ITU-T T.81, B.2.4.2).
bool has_sound_huffman_tables(std::string_view jpeg);

// How many scans the file has, or more: after the first scan, whatever looks like the start of one counts.
std::int64_t count_scans(std::string_view jpeg);

// The same picture, with a Huffman table for each number that a scan can name. A table that a scan names and the file
// does not define would be whatever lies in memory. The tables of the file come later and replace the added ones. Bytes
// that are not a JPEG file stay as they are.
std::string with_huffman_tables(std::string_view bytes);

}  // namespace tandem::data
