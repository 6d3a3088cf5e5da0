// How the ranks of a job meet: they open one store, wait until all have come, and agree on keys that are not yet used.
#pragma once

#include <tandem/distributed/job/environment.h>
#include <tandem/distributed/store/store.h>

#include <memory>

namespace tandem::distributed {

// Returns the job's store (job_store.h) when all ranks have called this. Where the launcher did not say which processes
// share a host, connect_store fills that into `environment`: processes share a host if they reach each other over the
// loopback.
//
// A launcher's store and a file outlive the processes. They may still hold keys of an earlier generation. The run's
// name is the same in all generations, and each host counts restarts by itself, so neither can tell generations apart.
// Instead, rank 0 draws a number that no meeting had. Every other rank writes a random word into the guest book of its
// rank; rank 0 answers each word with the number. Rank 0 also answers words of earlier generations, which nobody reads.
//
// Error after the timeout; it names the ranks that have not come. Error at once when two processes say that they are
// the same rank, or when ranks disagree about the job's size. `environment` must have an address or a file.
std::shared_ptr<Store> connect_store(Environment& environment, Store::Timeout timeout = Store::default_timeout);

}  // namespace tandem::distributed
