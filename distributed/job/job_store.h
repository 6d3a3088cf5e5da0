// Serves the store of a job, or connects to it.
#pragma once

#include <tandem/distributed/job/environment.h>
#include <tandem/distributed/store/store.h>

#include <memory>

namespace tandem::distributed {

// Returns the job's store. The launcher serves it, or else rank 0 serves it (or owns its file) until rank 0 destroys
// the result. The store may contain keys of earlier generations. Throws an Error if the store can't be reached within
// `timeout`. `environment` must have an address or a file.
std::shared_ptr<Store> open_job_store(const Environment& environment, Store::Timeout timeout);

}  // namespace tandem::distributed
