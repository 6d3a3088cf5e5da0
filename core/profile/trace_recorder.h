// The recorder of traces: keeps what each lane was busy with until a thread of the recorder's own has written it to the
// file. Only core/profile/profile.cpp uses it. Any thread may call.
#pragma once

#include <tandem/core/profile/profile.h>
#include <tandem/core/profile/trace_file.h>

#include <cstdint>
#include <string>

namespace tandem::detail {

void start_trace(const std::string& path, int rank);  // see Profile::start
void stop_trace();                                    // see Profile::stop
ProfileSummary trace_summary();                       // see Profile::summary
// When the trace that is being written began, in nanoseconds; 0 when none is.
std::int64_t trace_began();

void record(Event event);                              // in the calling thread's lane
void record_in(const std::string& lane, Event event);  // in the only lane of that name, for a source that is no thread

}  // namespace tandem::detail
