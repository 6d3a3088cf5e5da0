// The ranks of a group tell each other, through the store, that the group has failed and why.
#pragma once

#include <tandem/distributed/store/store.h>

#include <string>

namespace tandem::distributed {

// Keys of the group's store.
constexpr const char* watch_key = "watch";      // a rank that waits for long raises this number
std::string progress_key(int rank);             // what the rank does; rewritten when the watch key has changed
constexpr const char* failure_key = "failure";  // why the group failed
std::string left_key(int rank);                 // there once the rank has left the group or is dead

// Tells all ranks why this rank fails. Returns why the group failed first, which may be another rank's reason. Without
// a store that is `failure`.
std::string report_to_ranks(Store& store, const std::string& failure);

// `rank` has closed a connection. Waits until the store says why the group failed, or that `rank` is dead or has left,
// or for two seconds. A rank that gave up waiting for a third one closes its connections a moment before it says so.
void await_reason(Store& store, int rank);

}  // namespace tandem::distributed
