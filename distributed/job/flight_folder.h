// Chooses the folder of the flight records of a job's ranks (distributed/groups/observers/flight_recorder.h).
#pragma once

#include <tandem/distributed/groups/observers/flight_recorder.h>
#include <tandem/distributed/job/environment.h>

#include <filesystem>
#include <memory>
#include <string>

namespace tandem::distributed {

// Returns the recorder of this process. Its file is rank-R in the folder TANDEM_FLIGHT_DIR. The program that sets that
// variable is responsible for removing the files. Without the variable, the ranks of one host share a temporary folder,
// and each rank removes its file when it ends, unless something fails. If the file can't be created, the function says
// so on stderr and returns null. `store` is the result of connect_store().
std::shared_ptr<FlightRecorder> open_flight_recorder(const Environment& environment, Store& store);

}  // namespace tandem::distributed
