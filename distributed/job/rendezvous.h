// How the ranks of a job meet: they open one store, see that all have come, and agree on keys that nobody used before.
#pragma once

#include <tandem/distributed/job/environment.h>
#include <tandem/distributed/store/store.h>

#include <memory>

namespace tandem::distributed {

// The job's store, as soon as all ranks have called this. It is the launcher's, or rank 0 serves it (or owns its file)
// for as long as it holds the result. Where the launcher did not say who shares a host, `environment` has it
// afterwards: processes that reach each other over the loopback.
//
// A launcher's store and a file outlive the processes, and hosts count restarts differently, so neither the run's name
// nor the restart count keeps one attempt's keys from the next. Rank 0 draws a number that no attempt had; every other
// rank writes a word that only it knows into its guest book and reads the number under that word. What earlier attempts
// wrote is answered too, and nobody reads it.
//
// Error after the timeout, naming the ranks that have not come; at once when two processes say they are the same rank,
// or ranks disagree about the job's size. REQUIRES: an address or a file, which every job of several processes has.
std::shared_ptr<Store> connect_store(Environment& environment, Store::Timeout timeout = Store::default_timeout);

}  // namespace tandem::distributed
