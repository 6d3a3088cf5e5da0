// Checks JPEG files for faults that decoders do not look for. Without the checks of the tables, stb_image reads beyond
// the end of its tables, and before version 2.28 even writes there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::data {

// Returns whether every Huffman table has at most the 256 codes that are possible (ITU-T T.81, B.2.4.2).
bool has_sound_huffman_tables(std::string_view jpeg);

// Returns an upper bound for the number of scans: after the first scan, everything that looks like the start of one
// counts.
std::int64_t count_scans(std::string_view jpeg);

// Adds a Huffman table for each number that a scan can name; the image stays the same. Otherwise, if a scan named a
// table that the file does not define, the decoder would use uninitialised memory. The file's own tables come later and
// replace the added ones. Bytes that are not a JPEG file stay unchanged.
std::string with_huffman_tables(std::string_view bytes);

}  // namespace tandem::data
