// Lanes of the current trace for sources of ranges that are not threads of this process, such as a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::detail {

// Now, in nanoseconds of the clock that traces use.
std::int64_t profile_now();

// Adds a range to the lane `lane` ("GPU 0, stream 7"), from `begin` to `end` on that clock. `notes` holds members of a
// JSON object: "\"bytes\":4096". Does nothing when no trace is written. Any thread may call.
void profile_range(const std::string& lane, const std::string& name, std::int64_t begin, std::int64_t end,
                   const std::string& notes = {});

// `text`, escaped for use inside of a JSON string.
std::string json_escaped(std::string_view text);

// From now on scopes are ranges for NVIDIA's tools, with or without a trace, where this build knows them (NVTX).
void show_scopes_to_nvtx();

}  // namespace tandem::detail
