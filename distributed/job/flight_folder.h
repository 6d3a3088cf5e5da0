// Where the flight records of a job's ranks lie (distributed/groups/observers/flight_recorder.h).
#pragma once

#include <tandem/distributed/groups/observers/flight_recorder.h>
#include <tandem/distributed/job/environment.h>

#include <filesystem>
#include <memory>
#include <string>

namespace tandem::distributed {

// The recorder of this process: its file is rank-R in the folder that TANDEM_FLIGHT_DIR names, and the program that set
// that variable looks after the files. Otherwise the ranks of one host share a temporary folder, and each rank removes
// its file when it ends, unless something fails. If no file can be made, stderr says so, and the result is null.
// `store` is the store that connect_store() returned.
std::shared_ptr<FlightRecorder> open_flight_recorder(const Environment& environment, Store& store);

}  // namespace tandem::distributed
