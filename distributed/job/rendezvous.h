// The rendezvous of a job's ranks: they open one store, wait for all ranks to arrive, and agree on unused keys.
#pragma once

#include <tandem/distributed/job/environment.h>
#include <tandem/distributed/store/store.h>

#include <memory>

namespace tandem::distributed {

// Returns the job's store (job_store.h) when all ranks have called this function. If the launcher did not say which
// processes share a host, connect_store finds out, and sets the members of `environment` that say so. Processes share a
// host if they can reach each other over the loopback interface.
//
// A launcher's store and a file outlive the processes, and may still contain keys of an earlier generation. The run's
// name is the same in all generations, and each host counts restarts separately, so neither identifies a generation.
// Instead, rank 0 chooses a number that no earlier meeting had. Every other rank writes a random word into the guest
// book, and rank 0 answers each word with the number. Rank 0 also answers words of earlier generations, but nobody
// reads these answers.
//
// Throws an Error that names the missing ranks after the timeout. Throws an Error at once if two processes claim to be
// the same rank, or if ranks disagree about the job's size. `environment` must have an address or a file.
std::shared_ptr<Store> connect_store(Environment& environment, Store::Timeout timeout = Store::default_timeout);

}  // namespace tandem::distributed
