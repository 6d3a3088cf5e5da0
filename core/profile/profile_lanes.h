// The lanes of a trace that is being written, for sources of ranges other than this process's own threads: a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::detail {

// Nanoseconds of the clock that traces use.
std::int64_t profile_now();

// A range of the lane `lane`, "GPU 0, stream 7", from `begin` to `end` on that clock. `notes`: members of a JSON
// object,
// "\"bytes\":4096". Nothing where no trace is written. Any thread.
void profile_range(const std::string& lane, const std::string& name, std::int64_t begin, std::int64_t end,
                   const std::string& notes = {});

// `text` as the inside of a JSON string.
std::string json_escaped(std::string_view text);

}  // namespace tandem::detail
