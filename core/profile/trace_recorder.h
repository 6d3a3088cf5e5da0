// The recorder of traces: buffers the ranges of each lane until the recorder's own thread has written them to the file.
// Only core/profile/profile.cpp uses it. Any thread may call these functions.
#pragma once

#include <tandem/core/profile/profile.h>
#include <tandem/core/profile/trace_file.h>

#include <cstdint>
#include <string>

namespace tandem::detail {

void start_trace(const std::string& path, int rank);  // see Profile::start
void stop_trace();                                    // see Profile::stop
ProfileSummary trace_summary();                       // see Profile::summary
// Returns when the current trace began, in nanoseconds, or 0 if there is no trace.
std::int64_t trace_began();

void record(Event event);                              // in the calling thread's lane
void record_in(const std::string& lane, Event event);  // in the only lane of that name, for other sources

}  // namespace tandem::detail
