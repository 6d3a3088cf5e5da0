// The store of a job: who serves it, and how a rank connects to it.
#pragma once

#include <tandem/distributed/job/environment.h>
#include <tandem/distributed/store/store.h>

#include <memory>

namespace tandem::distributed {

// The launcher serves the store, or rank 0 serves it (or owns its file) for as long as rank 0 holds the result. Keys of
// earlier generations may be in it. Error when the store is not reached within `timeout`. `environment` must have an
// address or a file.
std::shared_ptr<Store> open_job_store(const Environment& environment, Store::Timeout timeout);

}  // namespace tandem::distributed
