// Lanes of the current trace for sources of ranges that are not threads of this process, such as a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::detail {

// Returns the current time in nanoseconds, on the clock that traces use.
std::int64_t profile_now();

// Adds a range to the lane `lane` ("GPU 0, stream 7"), from `begin` to `end` on that clock. `notes` contains members of
// a JSON object: "\"bytes\":4096". Does nothing if no trace is being written. Any thread may call this function.
void profile_range(const std::string& lane, const std::string& name, std::int64_t begin, std::int64_t end,
                   const std::string& notes = {});

// Returns `text` escaped for use inside a JSON string.
std::string json_escaped(std::string_view text);

// From now on, scopes are also ranges for NVIDIA's tools, with or without a trace, if this build supports them (NVTX).
void show_scopes_to_nvtx();

}  // namespace tandem::detail
